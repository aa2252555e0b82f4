"""Results of `similarity` as tables of text."""

from collections.abc import Iterator

from ingest.errors import number_of
from reports.similarity.results import SetSimilarity, Similarity
from reports.words import Cell, Document, Table, number, percent, shortened, spread, table


def document(similarity: Similarity) -> Document:
    return Document(list(headlines(similarity)), list(tables(similarity)), list(notes(similarity)))


def answer(similarity: Similarity) -> str:
    """Say in a sentence whether the changed pictures can still be recognised."""
    asked = [of_set for of_set in similarity.sets if of_set.num_nearest_of]
    if not asked:
        return "Whether the changed pictures can still be recognised is not known: none could be compared."
    found = [each for each in asked if (each.nearest_low or 0.0) > 1 / each.num_nearest_of]
    most = max(asked, key=lambda each: each.num_nearest / each.num_nearest_of)
    share = f"{percent(most.num_nearest / most.num_nearest_of)} ({spread(most.nearest_low, most.nearest_high)})"
    where = f"in {shortened(most.name)} {share} of the changed pictures lead back to their own original"
    if found:
        of_sets = f" in {len(found)} of {len(asked)} sets" if len(asked) > 1 else ""
        return f"The changed pictures can still be recognised{of_sets}: {where}."
    chance = f"by chance it would be {percent(1 / most.num_nearest_of)}"
    return f"This comparison does not show that the changed pictures can still be recognised: {where}; {chance}."


def headlines(similarity: Similarity) -> Iterator[str]:
    yield answer(similarity)
    drawn = f", {similarity.num_drawn:,} drawn" if similarity.num_drawn < similarity.num_originals else ""
    yield f"{number_of(similarity.num_originals, 'original')}{drawn}; {number_of(len(similarity.sets), 'set')}"
    where = "the areas that differ" if similarity.part == "areas" else "the whole pictures"
    yield f"compared: {where}; SemSim by the {similarity.encoder}"


def tables(similarity: Similarity) -> Iterator[Table]:
    heads = ["set", "pairs", "nearest", "95 %", "SemSim", "SSIM", "PSNR dB", "MSE"]
    rows: list[list[Cell]] = [[shortened(of_set.name), *_figures(of_set)] for of_set in similarity.sets]
    yield table("How alike changed pictures and originals are", heads, rows)
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
        heads = ["set", "compared", "equal", "unreadable", "withheld", "changed, no original", "original, none changed"]
        yield table("What became of the pictures", heads, rows)


def _figures(of_set: SetSimilarity) -> list[Cell]:
    share = of_set.num_nearest / of_set.num_nearest_of if of_set.num_nearest_of else None
    return [
        of_set.num_compared,
        percent(share),
        spread(of_set.nearest_low, of_set.nearest_high),
        of_set.means["semsim"],
        of_set.means["ssim"],
        number(of_set.means["psnr"], ".1f"),
        number(of_set.means["mse"], ".0f"),
    ]


def notes(similarity: Similarity) -> Iterator[str]:
    asked = max((of_set.num_nearest_of for of_set in similarity.sets), default=0)
    if asked:
        yield (
            f"nearest: changed pictures that are nearer to their own original than to any other of up to {asked:,}, by "
            f"SemSim; by chance it would be {percent(1 / asked)}. Such pictures can be found again."
        )
    yield "SemSim and MSE are 0 for equal pictures; SSIM is 1. PSNR falls with the difference."
    if resized := sum(of_set.num_other_size for of_set in similarity.sets):
        yield f"{number_of(resized, 'changed picture')} had another size than the original and was resized to compare."
    yield "A low likeness is no proof: other people, models and attacks may recognise more (privsieve help similarity)."
