"""Results of `similarity` as tables of text, for the terminal and the page, and the page itself."""

from collections.abc import Iterator, Mapping

from ingest.errors import number_of
from reports.pages import fill
from reports.similarity.recognised import METRIC_NAMES, Ranking, StudyVotes
from reports.similarity.results import SetSimilarity, Similarity
from reports.words import Cell, Document, Table, number, percent, shortened, spread, table

MIN_SETS = 14
"""Sets with which the source of the ranks compared metrics; with fewer, chance orders them as well as a good metric."""

FORMS = {"psnr": ".1f", "mse": ".0f"}
"""Metric -> decimals; three for the others."""


def document(similarity: Similarity) -> Document:
    return Document(list(headlines(similarity)), list(tables(similarity)), list(notes(similarity)))


def headlines(similarity: Similarity) -> Iterator[str]:
    drawn = f", {similarity.num_drawn:,} drawn" if similarity.num_drawn < similarity.num_originals else ""
    yield f"{number_of(similarity.num_originals, 'original')}{drawn}; {number_of(len(similarity.sets), 'set')}"
    where = "the areas that differ" if similarity.part == "areas" else "the whole pictures"
    yield f"compared: {where}; SemSim by the {similarity.encoder}"


def tables(similarity: Similarity) -> Iterator[Table]:
    heads = ["set", "pairs", "nearest", "95 %", "SemSim", "SSIM", "PSNR dB", "MSE", "FID"]
    rows: list[list[Cell]] = [[shortened(of_set.name), *_figures(of_set)] for of_set in similarity.sets]
    yield table("How alike changed pictures and originals are", heads, rows)
    if any(of_set.num_detected_in for of_set in similarity.sets):
        cells: list[list[Cell]] = [
            [shortened(of_set.name), of_set.num_detected_in, percent(of_set.still_detected)]
            for of_set in similarity.sets
        ]
        yield table("What detectors still find of what they find in the originals", ["set", "pairs", "found"], cells)
    if any(set(of_set.counts) - {"compared"} or of_set.num_originals_without for of_set in similarity.sets):
        names = ["compared", "same", "unreadable", "withheld", "no_original"]
        rows = [
            [
                shortened(of_set.name),
                *(of_set.counts.get(name, 0) for name in names),  # type: ignore[call-overload]  # of PairState
                of_set.num_originals_without,
            ]
            for of_set in similarity.sets
        ]
        heads = ["set", "compared", "equal", "unreadable", "withheld", "without original", "originals without"]
        yield table("What became of the pictures", heads, rows)


def _figures(of_set: SetSimilarity) -> list[Cell]:
    share = of_set.num_nearest / of_set.num_nearest_of if of_set.num_nearest_of else None
    return [
        of_set.num_compared,
        percent(share),
        spread(of_set.nearest_low, of_set.nearest_high),
        of_set.means["semsim"],
        of_set.means["ssim"],
        number(of_set.means["psnr"], FORMS["psnr"]),
        number(of_set.means["mse"], FORMS["mse"]),
        of_set.fid,
    ]


def notes(similarity: Similarity) -> Iterator[str]:
    asked = max((of_set.num_nearest_of for of_set in similarity.sets), default=0)
    if asked:
        yield (
            f"nearest: changed pictures that are nearer to their own original than to any other of up to {asked:,}, by "
            f"SemSim; by chance it would be {percent(1 / asked)}. Such pictures can be found again."
        )
    yield "SemSim, MSE and FID are 0 for equal pictures; SSIM is 1. PSNR falls with the difference."
    yield (
        "FID is the Fréchet distance of these features: it is not that of other tools, and only sets of about as many "
        "pairs can be compared by it."
    )
    if resized := sum(of_set.num_other_size for of_set in similarity.sets):
        yield f"{number_of(resized, 'changed picture')} had another size than the original and was resized to compare."
    yield "A low likeness is no proof: other people, models and attacks may recognise more (privsieve help similarity)."


def rank_document(ranking: Ranking) -> Document:
    return Document(list(_rank_headlines(ranking)), list(_rank_tables(ranking)), list(_rank_notes(ranking)))


def _rank_headlines(ranking: Ranking) -> Iterator[str]:
    yield f"recognised: {ranking.judge}"
    for each in ranking.collections:
        num_pairs = sum(of_set.num_pairs for of_set in each.sets)
        line = f"{shortened(each.name)}: {number_of(num_pairs, 'judged pair')} of {number_of(len(each.sets), 'set')}"
        yield line + _counts("left out", {"without an answer": each.num_without_answer, "with a tie": each.num_tied})


def _counts(head: str, counts: Mapping[str, int]) -> str:
    """Return the end of a line that says how many there are of each kind; empty if there are none."""
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"; {head}: {listed}" if listed else ""


def _rank_tables(ranking: Ranking) -> Iterator[Table]:
    for each in ranking.collections:
        heads = ["metric", "Kendall τ", "without any one set", "Spearman ρ", "AUC of pairs"]
        rows: list[list[Cell]] = [
            [
                METRIC_NAMES[metric],
                ranks.of_sets.kendall,
                _range(ranks.of_sets.kendall_low, ranks.of_sets.kendall_high),
                ranks.of_sets.spearman,
                ranks.of_pairs,
            ]
            for metric, ranks in each.metrics.items()
        ]
        yield table(f"Agreement with what was recognised: {shortened(each.name)}", heads, rows)
        ordered = sorted(each.sets, key=lambda of_set: -of_set.recognised)
        shown = list(each.metrics)
        cells: list[list[Cell]] = [
            [
                shortened(of_set.name),
                of_set.num_pairs,
                percent(of_set.recognised),
                *(number(of_set.means[metric], FORMS.get(metric, ".3f")) for metric in shown),
            ]
            for of_set in ordered
        ]
        heads = ["set", "pairs", "recognised", *(METRIC_NAMES[metric] for metric in shown)]
        yield table(f"Sets: {shortened(each.name)}", heads, cells)


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} to {number(high)}"


def _rank_notes(ranking: Ranking) -> Iterator[str]:
    yield "1: the metric has the order of what was recognised; 0: no relation; −1: the opposite order."
    few = [each for each in ranking.collections if len(each.sets) < MIN_SETS]
    if few:
        yield (
            f"{shortened(few[0].name)} has {len(few[0].sets)} sets: below {MIN_SETS} a high figure can be chance; "
            "compare more methods and strengths."
        )


def votes_document(votes: StudyVotes) -> Document:
    pairs = sum(of_set.num_pairs for of_set in votes.sets)
    undecided = {
        "with a tie": sum(of_set.num_tied for of_set in votes.sets),
        f"with fewer than {number_of(votes.min_votes, 'vote')}": sum(of_set.num_few for of_set in votes.sets),
        "without a vote": sum(of_set.num_without for of_set in votes.sets),
    }
    line = f"{number_of(pairs, 'pair')} of {number_of(len(votes.sets), 'set')}, by majority"
    rows: list[list[Cell]] = [
        [
            shortened(of_set.name),
            of_set.num_pairs,
            percent(of_set.recognised),
            of_set.num_recognised,
            of_set.num_not,
            of_set.num_tied,
            of_set.num_few,
            of_set.num_without,
        ]
        for of_set in votes.sets
    ]
    heads = ["set", "pairs", "share recognised", "recognised", "not", "tied", "too few votes", "no vote"]
    people: list[list[Cell]] = [
        [
            shortened(person.name),
            person.num_votes,
            person.num_skipped,
            f"{person.num_decoys_right:,} of {person.num_decoys:,}" if person.num_decoys else "–",
            "left out" if person.is_left_out else "",
        ]
        for person in votes.people
    ]
    return Document(
        [line + _counts("undecided", undecided)],
        [
            table("What people recognised", heads, rows),
            table("Who was asked", ["person", "votes", "skipped", "right on decoys", ""], people),
        ],
        ["share recognised: of the pairs that a majority decides; the others are in no share."],
    )


def render(similarity: Similarity) -> str:
    """Return the results as one HTML page, which needs no other file and may load none. It holds no picture."""
    shares = [
        (of_set.name, of_set.num_nearest / of_set.num_nearest_of) for of_set in similarity.sets if of_set.num_nearest_of
    ]
    return fill(
        "similarity/page.html.j2",
        headlines=list(headlines(similarity)),
        notes=list(notes(similarity)),
        tables=list(tables(similarity)),
        shares=shares,
        version=similarity.version,
    )
