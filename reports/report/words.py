"""A report in words: its two findings, what it rests on, and how to read its figures."""

from collections.abc import Iterable, Mapping, Sequence

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.population import with_unscored
from reports.report.headline import audit_cautions, corrected_whole, headline_of, quality_note
from reports.report.results import Report
from reports.run.design import Kind
from reports.run.figures import Figure, Rate
from reports.statistics.category_rates import MIN_LABELS
from reports.statistics.estimates import Estimate
from reports.statistics.shares import SMALL_GROUP
from reports.words import percent, percent_within, shortened, spread
from scoring.privacy import BY_ANSWER, BY_LEVEL, BY_SCORE, PRIVATE_LEVELS, SHOWS_PRIVATE
from scoring.runs.audit_files import PRIVATE
from scoring.taxonomy import KEYS

_NAMED = 3
"""Number of groups that the second finding names."""

_MAX_NAME = 60
"""Number of characters of a group's name in it."""


def findings(report: Report) -> tuple[str, str]:
    """Return the two sentences that a reader should remember: how much is private, and where."""
    return _how_much(report), _where(report)


def _how_much(report: Report) -> str:
    total, figure = report.total, headline_of(report)
    if total.privacy_rate is None:
        return "No image could be judged private or not, so there is no rate."
    most, caveat = _most_frequent(report), f"; {figure.caveat}" if figure.caveat else ""
    if figure.rate is None:
        corrected = "; labels correct the rates of categories" if has_corrected_groups(report) else ""
        share = percent(total.share_found, total.is_never_denied)
        return f"{figure.basis} ({share}) were found private{most}{caveat}{corrected}."
    whole = corrected_whole(report)
    raw = ""
    if figure.is_corrected and whole is not None and whole.raw_rate is not None:
        raw = f"; the engine itself found {percent(whole.raw_rate, total.is_never_denied)}"
    return f"{says(figure)}{raw}{most}{caveat}."


def says(figure: Figure) -> str:
    """Say a rate with its population, its basis and its interval."""
    rate = percent_within(figure.rate, figure.low, figure.high)
    interval = ""
    if figure.low is not None and figure.high is not None and figure.low < figure.high:
        interval = f"; 95 % interval {spread(figure.low, figure.high)}"
    estimated = "An estimated " if figure.is_of_source else ""
    found = "are" if figure.is_corrected else "were found"
    assumption = f", {figure.assumption}" if figure.assumption else ""
    return f"{estimated}{rate} of the {figure.population} {found} private ({figure.basis}{interval}){assumption}"


def has_corrected_groups(report: Report) -> bool:
    """Return whether labels gave corrected privacy rates of groups."""
    return any(row.subject == PRIVATE and row.category is not None for row in report.corrected)


def _most_frequent(report: Report) -> str:
    """Say which attribute makes most images private; empty for any other than the usual meaning of private."""
    if report.private != BY_LEVEL or report.design.kind == "per category":
        return ""
    severe = [row for row in report.prevalence if row.level in PRIVATE_LEVELS and row.num_present]
    if not severe:
        return ""
    top = max(severe, key=lambda row: row.num_present)
    return f", most often for “{top.title}”"


def _where(report: Report) -> str:
    known = [rate for rate in report.rates if rate.num_judged]
    label = report.by_label
    if len(known) < 2:
        return f"Only one {label} has a rate, so there is no order." if known else f"No {label} has a rate."
    if not report.has_claim:
        return f"The order of the {len(known):,} groups by {label} holds for the scanned images only."
    if has_corrected_groups(report):
        return _where_by_labels(report)
    raw = ", as the engine answers," if headline_of(report).is_corrected else ","
    could_be_highest = [rate for rate in known if rate.rank_low == 1]
    if len(could_be_highest) == len(known):
        return f"Which {label} has the highest rate cannot be said: there are too few images for an order."
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
    rows = [row for row in report.corrected if row.subject == PRIVATE and row.category is not None]
    first, *others = sorted(rows, key=lambda row: -(row.low or 0.0))
    names = [rate.group for rate in report.rates if rate.num_judged]
    if len(rows) < len(names) or any((other.high or 1.0) >= (first.low or 0.0) for other in others):
        return f"By {report.by_label}, labels do not show which rate is highest; the table has the corrected rates."
    return (
        f"By {report.by_label}, corrected by labels, {shortened(printable(first.category or ''), _MAX_NAME)} is "
        f"highest (at least {percent(first.low)}), ahead of all {len(others):,} others."
    )


def headlines(report: Report) -> tuple[str, ...]:
    lines = [report.scope] if report.is_whole and not report.warning else []
    screened = f"{report.total.num_screened:,} screened out, " if report.total.num_screened else ""
    lines += [
        *report.cautions,
        *findings(report),
        quality_note(report),
        *audit_cautions(report),
        "",
        f"run         {report.run}",
        f"source      {report.source}",
        f"engine      {report.engine}",
        f"images      {report.num_images:,}: {report.num_scored:,} scored, {screened}"
        f"{report.num_quarantined:,} quarantined",
        f"attributes  the engine assesses {len(report.assessed)} of {len(KEYS)}",
    ]
    if not report.assessed:
        lines.append("            its protocol asks for none, only whether a picture is private, or how severe it is")
    elif report.not_assessed:
        lines.append(f"            not assessed: {', '.join(report.not_assessed)}")
        lines.append("            levels and rates count only what was assessed: the real ones can be higher")
    return tuple(lines)


def private_in_words(report: Report) -> str:
    """Say what counts as private, for a reader who does not know the levels."""
    if report.private != BY_LEVEL:
        return f"{report.private_meaning.removeprefix('private: ')}."
    return f"The image shows {SHOWS_PRIVATE}. This is the choice of privsieve; --private sets another."


def first_of(words: Sequence[str], most: int) -> str:
    """Return the first words, and how many more there are."""
    left = len(words) - most
    return "; ".join(words) if left <= 1 else f"{'; '.join(words[:most])}; and {left} more"


def small_groups_note(rates: Iterable[Rate]) -> str | None:
    """Say what the mark of groups with few images means; None if no group has it."""
    if not any(rate.is_small for rate in rates):
        return None
    return f"fewer than {SMALL_GROUP} images were judged: the rate says little."


def bounds(rate: Rate, of: str) -> str | None:
    """Say what quarantined and unknown images could change; None if there are none, or if shards are damaged.

    of: as in `all_images`.
    """
    if not rate.num_left_out or rate.share_if_none_private is None:
        return None
    numbers = (rate.num_quarantined, rate.num_unknown, rate.num_screened)
    left_out = _images(numbers, ("quarantined", "unknown", "screened-out"))
    shares = rate.share_if_none_private, rate.share_if_all_private
    low, high = (percent_within(share, *shares) for share in shares)
    return f"With {left_out}: {low} of {of} if none of these is private, {high} if all are."


def _images(numbers: Sequence[int], kinds: Sequence[str]) -> str:
    """Say how many images there are of each kind."""
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
    if report.damage.num_parts or report.design.kind == "per category":  # how many images there are is not known
        return None
    if not headline.is_corrected:
        return bounds(total, all_images(report))
    corrected = Estimate(headline.rate, headline.low, headline.high)
    ends = with_unscored(corrected, total.num_images - total.num_quarantined, total.num_images)
    if ends is None or not total.num_quarantined:
        return None
    low, high = ends
    left_out = _images((total.num_quarantined,), ("quarantined",))
    them = "it" if total.num_quarantined == 1 else "them"
    return (
        f"The corrected rate leaves out {left_out}. With {them} it is between "
        f"{percent_within(low, low, high)} (none of them private, low end of the interval) and "
        f"{percent_within(high, low, high)} (all of them, high end)."
    )


def correction_note(report: Report) -> str | None:
    """Say what corrected rates of groups rest on; None if there are none."""
    rows = [row for row in report.corrected if row.subject == PRIVATE and row.category is not None]
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
        few = "no scored image"
        if report.min_count != 1:
            few = f"fewer than {report.min_count:,} scored images (--min-count)"
        sentences.append(f"Not listed: {hidden:,} of {report.num_groups:,} groups, with {few}.")
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
    "whole": f"Rates are counts of all images. {_AS_IF_DRAWN}",
    "damaged": f"Rates are counts of the images that could be read. {_AS_IF_DRAWN}",
    "shards": "Intervals (95 %) are of the rate in the source and have the variance between shards; there is none for "
    f"images of a single shard. {_RANKS}",
    "per category": f"Intervals (95 %) are of the rate of each category in the source. {_RANKS}",
}
_NO_INTERVALS = (
    "No intervals and no ranks: these images were not drawn at random, so they say nothing sure of the others."
)


def interval_note(report: Report) -> str:
    """Explain the intervals and ranks."""
    if report.design.kind == "random":
        size = "corrected for the sampled share of the source" if report.design.num_in_source else "for a large source"
        return f"Intervals (95 %) are of the rate in the source, {size}. {_RANKS}"
    return _INTERVAL_NOTES.get(report.design.kind, _NO_INTERVALS)


def unseen_note(report: Report) -> str | None:
    """Say how many files hold more than was scanned; None if it is known that none does."""
    unseen = report.unseen
    if not unseen.num_images:
        return None
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in unseen.by_kind.items() if count)
    return f"{unseen.num_images:,} images hold content that was not scanned ({kinds})."


def copies_note(report: Report) -> str | None:
    """Say what copies change; None if they were not looked for."""
    copies = report.copies
    if copies is None:
        return None
    if copies.num_distinct == copies.num_images:
        return f"Copies: none of the {copies.num_images:,} judged images has the perceptual hash of another."
    return (
        f"Copies: {copies.num_images:,} judged images are {copies.num_distinct:,} pictures by their perceptual hash, "
        f"the most frequent one {copies.num_in_largest:,} times. Private are {percent(copies.rate_each)} of the images "
        f"and {percent(copies.rate_distinct)} of the pictures."
    )
