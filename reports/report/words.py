"""A report in words: its two findings, what it rests on, and how to read its figures.

The terminal, the page and JSON say a figure by these functions only.
"""

from collections.abc import Iterable, Mapping, Sequence

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.results import ALL_LABELLED, IN_SOURCE, of_shards
from reports.audit.words import label_errors, label_gaps
from reports.labels.agreed import in_words
from reports.report.results import Report
from reports.run.design import Kind
from reports.run.figures import CorrectedRate, Figure, Rate, Scores
from reports.statistics.category_rates import MIN_LABELS
from reports.statistics.shares import SMALL_GROUP
from reports.words import ROUNDING, percent, percent_within, shortened, spread
from scoring.privacy import BY_ANSWER, BY_LEVEL, BY_SCORE, MEANINGS, MIN_PRIVATE_SCORE, PRIVATE_LEVELS, SHOWS_PRIVATE
from scoring.runs.audit_files import PRIVATE
from scoring.table import Col
from scoring.taxonomy import LEVELS

_NAMED = 3
"""Number of groups that the second finding names."""

_MAX_NAME = 60
"""Number of characters of a group's name in it."""


def headline_of(report: Report) -> Figure:
    """Return the main figure, the share of private images: corrected by labels where an audit allows it, else as the
    engine answers."""
    whole = report.corrected_of(PRIVATE)
    if whole is None or whole.corrected_rate is None:
        return report.overall
    is_of_source = IN_SOURCE in whole.population
    shards = f", and {of_shards(report.total.num_shards or 0)}" if report.design.kind == "shards" else ""
    return Figure(
        whole.corrected_rate,
        whole.low,
        whole.high,
        population=whole.population,
        basis=f"corrected by {number_of(whole.num_labels, 'label')} of people",
        caveat="" if is_of_source or report.design.kind == "whole" else "the others can differ",
        is_of_source=is_of_source,
        is_corrected=True,
        assumption=f"if labels are right and chance alone decided which pictures have one{shards}",
    )


def findings(report: Report) -> tuple[str, str]:
    """Return the two sentences that a reader should remember: how much is private, and where."""
    return _how_much(report), _where(report)


def _how_much(report: Report) -> str:
    total, figure = report.total, headline_of(report)
    if total.privacy_rate is None:
        return "No image could be judged private or not, so there is no rate."
    most, caveat = _most_frequent(report), f"; {figure.caveat}" if figure.caveat else ""
    if figure.rate is None:
        corrected = "; labels correct the rates of categories" if report.corrected_groups else ""
        share = percent(total.share_found, total.is_never_denied)
        return f"{figure.basis} ({share}) were found private{most}{caveat}{corrected}."
    whole, raw = report.corrected_of(PRIVATE), ""
    if figure.is_corrected and whole is not None and whole.raw_rate is not None:
        raw = f"; the engine itself found {percent(whole.raw_rate, total.is_never_denied)}"
    return f"{says(figure)}{raw}{most}{caveat}."


def says(figure: Figure) -> str:
    """Say a rate with its population, its basis and its interval."""
    rate = percent_within(figure.rate, figure.low, figure.high)
    interval = f"; 95 % interval {spread(figure.low, figure.high)}" if has_interval(figure.low, figure.high) else ""
    estimated = "An estimated " if figure.is_of_source else ""
    found = "are" if figure.is_corrected else "were found"
    assumption = f", {figure.assumption}" if figure.assumption else ""
    return f"{estimated}{rate} of the {figure.population} {found} private ({figure.basis}{interval}){assumption}"


def _most_frequent(report: Report) -> str:
    """Say which attribute makes most images private; empty for any other than the usual meaning of private."""
    if report.private != BY_LEVEL or report.design.kind == "per category":
        return ""
    severe = [row for row in report.prevalence if row.level in PRIVATE_LEVELS and row.num_present]
    if not severe:
        return ""
    top = max(severe, key=lambda row: row.num_present)
    return f", most often because of “{top.title}”"


def _where(report: Report) -> str:
    known = [rate for rate in report.rates if rate.num_judged]
    label = report.by_label
    if len(known) < 2:
        return f"Only one {label} has a rate, so there is no order." if known else f"No {label} has a rate."
    if not report.design.has_claim:
        return f"The order of the {len(known):,} groups by {label} holds for the scanned images only."
    if report.corrected_groups:
        return _where_by_labels(report)
    raw = ", as the engine answers," if headline_of(report).is_corrected else ","
    could_be_highest = [rate for rate in known if rate.rank_low == 1]
    if len(could_be_highest) == len(known):
        return f"Too few images to say which {label} has the highest rate: each of the {len(known):,} could have it."
    names = [shortened(rate.group, _MAX_NAME) for rate in could_be_highest[:_NAMED]]
    least = could_be_highest[0].source_low if report.design.is_random else could_be_highest[0].rate_low
    if len(could_be_highest) == 1:
        others = "the other one" if len(known) == 2 else f"all {len(known) - 1:,} others"
        return f"By {label}{raw} {names[0]} is highest (at least {percent(least)}), ahead of {others}."
    more = len(could_be_highest) - len(names)
    listed = f"{', '.join(names)} or {more:,} more" if more else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"By {label}{raw} the highest of {len(known):,} is {listed}; the table has the possible ranks of each."


def _where_by_labels(report: Report) -> str:
    """Say which group is highest by its corrected rate: the engine's own order would contradict the labels."""
    first, *others = rows = report.corrected_groups
    names = [rate.group for rate in report.rates if rate.num_judged]
    if len(rows) < len(names) or any((other.high or 1.0) >= (first.low or 0.0) for other in others):
        return f"By {report.by_label}, labels do not show which rate is highest; the table has the corrected rates."
    return (
        f"By {report.by_label}, corrected by labels, {shortened(printable(first.category or ''), _MAX_NAME)} is "
        f"highest (at least {percent(first.low)}), ahead of all {len(others):,} others."
    )


def quality_note(report: Report) -> str:
    """Say how often the answers are right, or why this is not known."""
    whole = report.corrected_of(PRIVATE)
    if whole is not None:
        return _measured(whole)
    if report.corrected and report.design.kind == "per category":
        return (
            "Labels correct the rates of categories. A rate of the whole source needs their sizes: run audit apply "
            "--category-sizes FILE."
        )
    if report.audited.other_condition is not None:
        condition = shortened(printable(report.audited.other_condition), 80)
        return f'The audit of this run is of another meaning of "private"; it is shown with --private "{condition}".'
    if report.audited.is_stale:
        return (
            "There is an audit, but of other rows than the run has now, so its rates are left out. Draw and label a "
            "new sample: privsieve audit sample."
        )
    return (
        "Not measured on this run: the rates are what the engine answered, right or wrong. A few hundred labels "
        "measure and correct them: run privsieve audit sample."
    )


def _measured(whole: CorrectedRate) -> str:
    labels = f"{number_of(whole.num_labels, 'label')} of people"
    if whole.corrected_rate is None:
        if whole.low is not None and whole.high is not None and whole.num_labels:
            bounds = f"only show that {spread(whole.low, whole.high)} of the {whole.population} are private"
            return f"There are {labels}, but they {bounds}: label more of the sample."
        why = f" ({whole.note})" if whole.note else ""
        return f"There are {labels}, but they give no corrected rate{why}."
    finds = _share(whole.sensitivity, whole.sensitivity_low, whole.sensitivity_high)
    right = whole.specificity
    accuses = _share(None if right is None else 1 - right, _rest(whole.specificity_high), _rest(whole.specificity_low))
    parts = [f"finds {finds} of the private images"] if finds else []
    parts += [f"wrongly calls {accuses} of the public images private"] if accuses else []
    return f"Measured by {labels}{': the engine ' if parts else ''}{', and '.join(parts)}."


def _share(value: float | None, low: float | None, high: float | None) -> str:
    """Return a share with its interval, its bounds if nothing else is known, or nothing."""
    if value is None:
        return "" if low is None else f"between {spread(low, high)}"
    return f"{percent_within(value, low, high)} ({spread(low, high)})" if has_interval(low, high) else percent(value)


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def audit_cautions(report: Report) -> tuple[str, ...]:
    """Return the cautions about the labels of an audit, one sentence each; empty without corrected rates."""
    if not report.corrected:
        return ()
    gaps, cautions = report.audited.gaps, list[str]()
    few = [
        row.subject
        for row in report.corrected
        if row.category is None and row.num_labels < MIN_LABELS and row.note != ALL_LABELLED
    ]
    if few:
        number = f"{few[0]} and {number_of(len(few) - 1, 'attribute')}" if len(few) > 3 else ", ".join(few)
        cautions.append(
            f"Fewer than {MIN_LABELS} labels: label more before you rely on the corrected rate of {number}."
        )
    cautions += label_gaps(gaps.num_drawn or 0, gaps.num_without_label, in_words(dict(gaps.num_undecided)))
    cautions.append(label_errors(gaps.num_judged_twice, gaps.share_differing, gaps.kappa, gaps.allows_for_errors))
    return tuple(cautions)


def headlines(report: Report) -> tuple[str, ...]:
    """Return what fits a screen: cautions, findings, and what they rest on."""
    total, out = report.total, report.left_out.quarantined
    screened = f"{total.num_screened:,} screened out, " if total.num_screened else ""
    reasons = f" ({', '.join(f'{reason} {number:,}' for reason, number in out.items())})" if out else ""
    levels = ", ".join(f"level {level} {percent(share)}" for level, _, _, share in levels_in_words(report) if level)
    quarantined = f"{total.num_quarantined:,} quarantined{reasons}"
    found = sorted((row for row in report.prevalence if row.num_present), key=lambda row: -row.num_present)
    shown = (
        f"{row.attribute} {percent(row.share, row.is_lower_bound)}" for row in found[:5]
    )  # more would not fit a screen
    edges = (
        f"≥ {edge.score:g} (level {edge.level}) "
        f"{_share(edge.figure.rate, edge.figure.low, edge.figure.high) or number_of(edge.num_images, 'image')}"
        for edge in (report.scores.edges if report.scores else ())
    )
    facts = {
        "run": report.run,
        "source": report.source,
        "engine": f"{report.making['Engine']} · {report.making['Questions and settings']}",
        "model": models_in_words(report),
        "images": f"{total.num_images:,}: {total.num_scored:,} scored, {screened}{quarantined}",
        "severity": levels,
        "score": score_in_words(report.scores) if report.scores else "",
        "at least": "; ".join(edges),
        "shows": ", ".join(shown),
        "not asked": not_assessed_in_words(report) if report.not_assessed else "",
        "private": private_in_words(report),
    }
    return (
        *([report.scope] if report.is_whole else []),
        *report.cautions,
        *findings(report),
        quality_note(report),
        *audit_cautions(report),
        "",
        *(f"{name:10} {value}" for name, value in facts.items() if value),
    )


def endnotes(report: Report) -> tuple[str, ...]:
    """Return how to read the figures, one sentence each."""
    small = small_groups_note((*report.highest, *report.lowest))
    sentences = (
        interval_note(report),
        *notes(report),
        small and f"* {small}",
        bounds_of_all(report),
        unseen_note(report),
    )
    return tuple(sentence for sentence in sentences if sentence)


def private_in_words(report: Report) -> str:
    """Say what counts as private, for a reader who does not know the levels."""
    if report.private == BY_LEVEL:
        return f"The image shows {SHOWS_PRIVATE}. This is the choice of privsieve; --private sets another."
    return f"{MEANINGS.get(report.private) or f'{printable(report.private)} (set with --private)'}."


def levels_in_words(report: Report) -> list[tuple[int, str, int, float]]:
    """Return number, name, images and share of each level, most severe first; empty if no image has a level."""
    numbers, num_images = report.total.nums_by_level, sum(report.total.nums_by_level)
    levels = zip((1, 2, 3, 4, 0), numbers, strict=True)
    return [(level, LEVELS[level], number, number / num_images) for level, number in levels if num_images]


def score_in_words(scores: Scores) -> str:
    """Say the mean of the scores that the model gave."""
    what = "severity score" if scores.column == Col.HOLISTIC_SCORE else "probability of private"
    if scores.mean is None:
        return f"The model gave no {what}."
    interval = "" if scores.low is None else f" (95 % interval {scores.low:.3f} – {scores.high:.3f})"
    return f"The model gave {number_of(scores.num_images, 'image')} a {what}, on average {scores.mean:.3f}{interval}."


def edges_in_words(report: Report) -> list[tuple[str, int, str, str, str]]:
    """Return the edge of each level's band, the images at or above it, their share, its 95 % interval, and the share
    corrected by labels, which answer only where the edge is that of private images."""
    rows = []
    for edge in report.scores.edges if report.scores else ():
        is_private = edge.score == MIN_PRIVATE_SCORE and report.private == BY_SCORE
        figure = headline_of(report)
        corrected = _share(figure.rate, figure.low, figure.high) if is_private and figure.is_corrected else "–"
        name = f"≥ {edge.score:g} (level {edge.level})"
        rows.append((name, edge.num_images, *rate_and_interval(edge.figure), corrected))
    return rows


def rate_and_interval(figure: Figure) -> tuple[str, str]:
    """Return a figure for two columns: the interval is empty where all images were counted, "–" where there is none."""
    if has_interval(figure.low, figure.high):
        return percent_within(figure.rate, figure.low, figure.high), spread(figure.low, figure.high)
    return percent(figure.rate), "–" if figure.low is None else ""


def has_interval(low: float | None, high: float | None) -> bool:
    """Return whether the ends differ: they do not where all images were counted, but by the arithmetic."""
    return low is not None and high is not None and high - low > ROUNDING


def models_in_words(report: Report) -> str:
    """Name the model and its adapter with their revisions: the commit in a name of the hub, else the hash.
    Empty where the engine has no weights here."""
    models = [name if "@" in name else f"{name} (SHA-256 {sha256})" for name, sha256 in report.models.items()]
    return f"{len(models)} files of weights" if len(models) > 2 else ", ".join(models)


def not_assessed_in_words(report: Report, names: Mapping[str, str] | None = None) -> str:
    """Say which attributes the engine does not judge. names: key -> title; None for the keys."""
    if not report.assessed:
        return "No attribute is asked for, only whether a picture is private, or how severe it is."
    if not report.not_assessed:
        return f"Nothing: the engine assesses all {len(report.prevalence)} attributes."
    listed = ", ".join((names or {}).get(key, key) for key in report.not_assessed)
    return f"{listed}. The engine cannot judge these, so the real levels and rates can be higher."


def first_of(words: Sequence[str], most: int) -> str:
    """Return the first words, and how many more there are."""
    num_more = len(words) - most
    return "; ".join(words) if num_more <= 1 else f"{'; '.join(words[:most])}; and {num_more} more"


def small_groups_note(rates: Iterable[Rate]) -> str | None:
    """Say what the mark of groups with few images means; None if no group has it."""
    note = f"fewer than {SMALL_GROUP} images were judged: the rate says little."
    return note if any(rate.is_small for rate in rates) else None


def bounds(rate: Rate, images: str) -> str | None:
    """Say what quarantined and unknown images could change; None if there are none, or if shards are damaged.

    images: as in `all_images`.
    """
    if not rate.num_left_out or rate.share_if_none_private is None:
        return None
    numbers = (rate.num_quarantined, rate.num_unknown, rate.num_screened)
    left_out = _images(numbers, ("quarantined", "unknown", "screened-out"))
    shares = rate.share_if_none_private, rate.share_if_all_private
    low, high = (percent_within(share, *shares) for share in shares)
    return f"With {left_out}: {low} of {images} if none of these is private, {high} if all are."


def _images(numbers: Sequence[int], kinds: Sequence[str]) -> str:
    parts = [f"{number:,} {kind}" for number, kind in zip(numbers, kinds, strict=True) if number]
    return f"{' and '.join(parts)} {'image' if sum(numbers) == 1 else 'images'}"


def all_images(report: Report) -> str:
    """Say what the images of the report are: all of the source, or those of the run."""
    return "all images" if report.design.kind == "whole" and report.design.is_certain else "the scanned images"


def bounds_of_all(report: Report) -> str | None:
    """Say how far images that are in no rate could change the rate of all images; None if there are none."""
    headline, total = headline_of(report), report.total
    if report.design.kind == "per category" and headline.rate is not None:
        return None  # the rate is weighted, and these images are not
    if report.design.is_damaged or report.design.kind == "per category":  # how many images there are is not known
        return None
    if not headline.is_corrected:
        return bounds(total, all_images(report))
    if headline.low is None or headline.high is None or not total.num_quarantined:
        return None
    share = total.num_quarantined / total.num_images
    low, high = headline.low * (1 - share), headline.high * (1 - share) + share
    left_out = _images((total.num_quarantined,), ("quarantined",))
    them = "it" if total.num_quarantined == 1 else "them"
    return (
        f"The corrected rate leaves out {left_out}. With {them} it is between {percent_within(low, low, high)} (none "
        f"of them private, low end of the interval) and {percent_within(high, low, high)} (all of them, high end)."
    )


def correction_note(report: Report) -> str | None:
    """Say what corrected rates of groups rest on; None if there are none."""
    rows = report.corrected_groups
    if not rows:
        return None
    sentence = f"Corrected rates of groups are of the {rows[0].population}."
    assumed = [row for row in rows if row.method != "difference"]
    if not assumed:
        return sentence
    which = "They" if len(assumed) == len(rows) else f"Those with fewer than {MIN_LABELS} labels of their own"
    return (
        f"{sentence} {which} are by a model of all groups (Fay and Herriot): it assumes that the true rates scatter "
        "alike around a line over the rates that the engine answers."
    )


def notes(report: Report) -> tuple[str, ...]:
    """Return notes on how the rates were made, one sentence each."""
    sentences = ["N: scored images; quarantined images are in no rate."]
    if not report.assessed and report.total.num_unknown == report.total.num_scored:
        sentences.append(
            f'The engine judged no attribute. For answers of the protocol binary use --private "{BY_ANSWER}", for '
            f'those of severity --private "{BY_SCORE}" (levels 1 and 2).'
        )
    if report.total.num_unknown:
        such_as = ", such as text in a script that is not read" if report.assessed else ""
        sentences.append(
            f"unknown ({report.total.num_unknown:,}): scored images for which the condition needs what could not be "
            f"judged in them{such_as}. rate: private / (N - unknown)."
        )
    without = sum(rate.privacy_rate is None and rate.num_unknown > 0 for rate in report.rates)
    if without:
        have = "has" if without == 1 else "have"
        sentences.append(
            f"{without:,} of {number_of(report.num_groups, 'group')} {have} no rate: all images there are unknown."
        )
    hidden = report.num_groups - len(report.rates)
    if hidden:
        sentences.append(f"Not listed: {hidden:,} of {report.num_groups:,} groups, with no scored image.")
    return tuple(sentences)


_RANKS = (
    "Ranks hold for all groups at once with 95 % confidence, which takes longer intervals than those shown: groups "
    "whose intervals do not overlap can still share ranks."
)
_AS_IF_DRAWN = (
    "Intervals (95 %, Wilson) and ranks say how sure the order would be if these images were drawn at random from many "
    f"more of their kind. {_RANKS}"
)
_INTERVAL_NOTES: Mapping[Kind, str] = {
    "whole": f"Rates are counts of all scored images. {_AS_IF_DRAWN}",
    "damaged": f"Rates are counts of the images that could be read. {_AS_IF_DRAWN}",
    "shards": "Intervals (95 %) are of the rate in the source and have the variance between shards; there is none for "
    f"images of a single shard. {_RANKS}",
    "per category": f"Intervals (95 %) are of the rate of each category in the source. {_RANKS}",
}


def interval_note(report: Report) -> str:
    """Explain the intervals and ranks."""
    if report.design.kind == "random":
        size = "corrected for the sampled share of the source" if report.design.num_in_source else "for a large source"
        return f"Intervals (95 %) are of the rate in the source, {size}. {_RANKS}"
    none = "No intervals and no ranks: these images were not drawn at random, so they say nothing sure of the others."
    return _INTERVAL_NOTES.get(report.design.kind, none)


def unseen_note(report: Report) -> str | None:
    """Say how many files may hold more than was scanned; None if it is known that none does."""
    if not report.left_out.num_unseen:
        return None
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in report.left_out.unseen.items() if count)
    return f"{report.left_out.num_unseen:,} images hold content that may not have been scanned ({kinds})."
