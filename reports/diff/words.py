"""A comparison as tables of text, for the terminal and the page, and the page itself."""

from collections.abc import Iterator, Sequence

from ingest.errors import number_of
from reports.diff.results import LEVEL_STATES, PRIVATE_STATES, AttributeChange, RunDifference, Side
from reports.evaluation.words import interval_cell
from reports.pages import fill
from reports.statistics.intervals import NUM_FEW
from reports.statistics.paired import SIGNIFICANCE
from reports.words import Cell, Document, Table, number, p_text, percent, shortened, table
from scoring.taxonomy import LEVELS

MAX_SETTINGS = 20
"""Number of differing settings that are listed; the rest are only counted."""

SCORES = {"holistic_score": "the model's own score", "score": "score by formula"}
"""Column -> what it is."""

_REASON_HEADS = ("in A, open in B", "in B, open in A", "no test since")


def document(difference: RunDifference, most_groups: int | None = None) -> Document:
    """Return the comparison as text. most_groups: None for all."""
    return Document(
        (*headlines(difference), *findings(difference)),
        tuple(tables(difference, most_groups)),
        tuple(notes(difference)),
    )


def headlines(difference: RunDifference) -> Iterator[str]:
    for name, side in (("A", difference.a), ("B", difference.b)):
        yield f"{name}  {side.run}: {side.engine}, of {shortened(side.source)}"
        for caution in side.cautions:
            yield f"   {caution}"
    if not difference.settings:
        yield "settings: all the same"
    for setting in difference.settings[:MAX_SETTINGS]:
        yield f"setting: {setting}"
    if len(difference.settings) > MAX_SETTINGS:
        yield f"and {len(difference.settings) - MAX_SETTINGS} more settings"


def findings(difference: RunDifference) -> Iterator[str]:
    """Yield the result in a few sentences, what was compared first."""
    yield _matched(difference)
    if not difference.num_pairs:
        return
    yield _private(difference)
    if difference.private.rate_a is not None:
        yield _groups_in_words(difference)
    for score in difference.scores:
        interval = "" if score.interval is None else f" (95 % interval {interval_cell(score.interval, '+.3f')})"
        yield (
            f"Severity ({SCORES[score.column]}): mean {number(score.mean_a)} in A, {number(score.mean_b)} in B, over "
            f"{number_of(score.num_pictures, 'picture')} that both scored; B − A {number(score.change, '+.3f')}"
            f"{interval}, Spearman ρ {number(score.spearman)} between the runs."
        )
    if drawn_in := difference.shards_drawn_in:
        are = "is" if len(drawn_in) == 1 else "are"
        yield (
            f"No tests and no intervals: {' and '.join(map(str.upper, drawn_in))} {are} of random shards (--shards), "
            "and pictures of one shard are alike, which the tests here do not allow for. Intervals of each run: "
            "privsieve report."
        )
    flipped = sum(attribute.num_appeared + attribute.num_vanished for attribute in difference.attributes.values())
    yield f"Attributes present in one run only: {flipped:,}, over all pictures and attributes that both assessed."


def _private(difference: RunDifference) -> str:
    private = difference.private
    only_known = (
        f"private in B and unknown in A {private.num_private_b_open_a:,}, "
        f"private in A and unknown in B {private.num_private_a_open_b:,}"
    )
    if private.rate_a is None or private.rate_b is None:
        return f"There is no picture of which both runs say whether it is private; {only_known}."
    rates = (
        f"{percent(private.rate_a)} of {private.num_pictures:,} pictures in A, {percent(private.rate_b)} in B; only in "
        f"A {private.num_only_a:,}, only in B {private.num_only_b:,}"
    )
    if private.seldom_denied_in:
        leave = f"{private.seldom_denied_in[0].upper()} leaves more pictures unknown than it calls public"
        if len(private.seldom_denied_in) > 1:
            leave = "A and B leave more pictures unknown than they call public"
        return (
            f"Private, where both runs know it: {rates}. No test and no κ, since {leave}: which pictures are known "
            f"depends on the answer. Read instead: {only_known}."
        )
    tested = "not tested" if difference.shards_drawn_in else "no picture changed, so there is nothing to test"
    if private.p_value is not None:
        tested = f"McNemar's exact test p = {p_text(private.p_value)}".replace("= <", "<")
    num_open = private.num_private_a_open_b + private.num_private_b_open_a
    more = f" {only_known[0].upper()}{only_known[1:]}." if num_open else ""
    return f"Private: {rates}; {tested}, κ {number(difference.private_kappa)}.{more}"


def _groups_in_words(difference: RunDifference) -> str:
    if difference.shards_drawn_in:
        return f"Rate by {difference.by}: no group has a test."
    tested = [group for group in difference.groups if not group.seldom_denied_in]
    untested = len(difference.groups) - len(tested)
    if untested and not tested:
        return f"Rate by {difference.by}: no group has a test, since the same is true of each."
    changed = sum(item.p_holm is not None and item.p_holm < SIGNIFICANCE for item in tested)
    of_groups = f"{changed:,} of {len(tested):,} groups by {difference.by}"
    more = f"; {untested:,} more have no test" if untested else ""
    return f"Rate changed (Holm-adjusted p < {SIGNIFICANCE}) in {of_groups}{more}."


def _matched(difference: RunDifference) -> str:
    a, b = difference.a, difference.b
    if not difference.num_pairs:
        return (
            f"No picture is in both runs: {a.num_pictures:,} are only in A, {b.num_pictures:,} only in B, so none can "
            f"be compared. Each run as a whole: {_whole('A', a)}, {_whole('B', b)}. Pictures that were encoded again "
            "have another hash."
        )
    if difference.num_pairs == a.num_pictures == b.num_pictures:
        return f"Both runs hold the same {number_of(difference.num_pairs, 'picture')}; all are compared."
    share_a, share_b = (percent(difference.num_pairs / side.num_pictures) for side in (a, b))
    are = "is" if difference.num_pairs == 1 else "are"
    unmatched = {name: side.num_pictures - difference.num_pairs for name, side in (("A", a), ("B", b))}
    sides = " and ".join(f"{num:,} only in {name}" for name, num in unmatched.items() if num)
    return (
        f"{number_of(difference.num_pairs, 'picture')} {are} in both runs ({share_a} of A, {share_b} of B) and "
        f"compared; {sides} {'is' if sum(unmatched.values()) == 1 else 'are'} not. "
        f"Each run as a whole: {_whole('A', a)}, {_whole('B', b)}."
    )


def _whole(name: str, side: Side) -> str:
    if not side.num_known:
        return f"{name} knows of no picture whether it is private"
    return f"{percent(side.share_private)} private of {side.num_known:,} known in {name}"


def tables(difference: RunDifference, most_groups: int | None = None) -> Iterator[Table]:
    """Yield the tables; only the counts if no picture is in both runs. most_groups: None for all."""
    yield _counts(difference)
    if not difference.num_pairs:
        return
    words = {str(level): f"{level} {name}" for level, name in LEVELS.items()}
    yield _transitions("Level in A (rows) and in B (columns)", LEVEL_STATES, difference.levels, words)
    yield _transitions("Private in A (rows) and in B (columns)", PRIVATE_STATES, difference.private_states, {})
    yield _attributes(difference)
    yield _groups(difference, most_groups)
    if difference.pictures:
        yield table(
            "Pictures whose level changed most",
            ["picture", shortened(difference.by), "level in A", "level in B"],
            [[shortened(p.key), shortened(p.group), str(p.level_a), str(p.level_b)] for p in difference.pictures],
        )


def notes(difference: RunDifference) -> Iterator[str]:
    """Yield notes on the counts, one line each."""
    if difference.a.private_from != difference.b.private_from:
        a, b = difference.a.private_from, difference.b.private_from
        yield f"Private means another thing in each run: in A {a}, in B {b}."
    else:
        yield f"Private: {difference.a.private_from}."
    for name, side in (("A", difference.a), ("B", difference.b)):
        if side.num_differing_copies:
            yield (
                f"{side.num_differing_copies:,} pictures have copies with different answers in {name}; "
                "the first scored copy was compared."
            )
    if difference.num_by_name:
        yield f"{difference.num_by_name:,} pictures were joined by name, since one of the rows has no hash."
    if difference.num_moved:
        yield f"{difference.num_moved:,} pictures are in another group in B; they count in that of A."
    attributes = {key: change for key, change in difference.attributes.items() if change.seldom_denied_in}
    if one_sided := [key for key, change in attributes.items() if change.num_assessed + _num_open(change)]:
        yield (
            f"No test and no κ for {', '.join(one_sided)}: a run has no answer in more pictures than it answers with "
            "no, so which pictures are compared depends on the answer. Read instead how many pictures one run finds it "
            'in that the other leaves open ("in A, open in B", "in B, open in A").'
        )
    if any(group.seldom_denied_in for group in difference.groups):
        yield (
            "A group has no test if a run leaves more of its pictures unknown than it calls public. Read instead how "
            'many are private in one run and unknown in the other ("in A, open in B", "in B, open in A").'
        )
    if difference.num_unnamed:
        are = "is" if difference.num_unnamed == 1 else "are"
        yield (
            f"{number_of(difference.num_unnamed, 'picture')} of those whose level changed most {are} not named: on the "
            "hash list, or not to be compared with it. All counts include such pictures."
        )
    if any(score.interval and score.interval.is_few for score in difference.scores):
        yield (
            f"few: fewer than {NUM_FEW} pictures have another score in B than in A. The interval holds, but more "
            "pictures would make it much narrower."
        )
    if difference.num_pairs and not difference.shards_drawn_in:
        yield (
            "Files with the same bytes count as one picture. Tests and intervals take pictures as independent: near "
            "duplicates would make p-values too small and intervals too narrow."
        )


def _counts(difference: RunDifference) -> Table:
    def sides(words: str, name: str) -> list[Cell]:
        return [words, getattr(difference.a, name), getattr(difference.b, name)]

    return table(
        "Rows of each run",
        ["rows", "A", "B"],
        [
            ["compared", difference.num_pairs, difference.num_pairs],
            sides("copies of these or of others", "num_copies"),
            sides("only in this run", "num_only_here"),
            sides("without a hash, name ambiguous", "num_ambiguous"),
            sides("all", "num_rows"),
            sides("of all: quarantined", "num_quarantined"),
            sides("of all: private", "num_private"),
            ["share private, where known", *(percent(side.share_private) for side in (difference.a, difference.b))],
        ],
    )


def _transitions(title: str, states: Sequence[str], counts: Sequence[Sequence[int]], words: dict[str, str]) -> Table:
    shown = [index for index in range(len(states)) if sum(counts[index]) or sum(row[index] for row in counts)]
    return table(
        title,
        ["A", *(states[index] for index in shown)],
        [[words.get(states[row], states[row]), *(counts[row][column] for column in shown)] for row in shown],
    )


def _attributes(difference: RunDifference) -> Table:
    assessed = {key: change for key, change in difference.attributes.items() if change.num_assessed + _num_open(change)}
    shown = {
        key: change
        for key, change in assessed.items()
        if change.num_present_a + change.num_present_b + change.num_doubt_changed + _num_open(change)
    }
    omitted = {
        "that neither run found": len(assessed) - len(shown),
        "of which no picture has answers of both runs": len(difference.attributes) - len(assessed),
    }
    has_reasons = any(item.seldom_denied_in for item in shown.values())
    return table(
        "; ".join(
            ["Attributes, over the pictures in which both runs assessed them"]
            + [f"left out: {number_of(num, 'attribute')} {words}" for words, num in omitted.items() if num]
        ),
        ["attribute", "pictures", "in A", "in B", "appeared", "vanished", "doubt", "κ", "p", "p (Holm)"]
        + list(_REASON_HEADS) * has_reasons,
        [
            [
                key,
                change.num_assessed,
                change.num_present_a,
                change.num_present_b,
                change.num_appeared,
                change.num_vanished,
                change.num_doubt_changed,
                change.kappa,
                p_text(change.p_value),
                p_text(change.p_holm),
                *_reason_cells(
                    change.num_present_a_open_b, change.num_present_b_open_a, change.seldom_denied_in, has_reasons
                ),
            ]
            for key, change in shown.items()
        ],
    )


def _num_open(change: AttributeChange) -> int:
    return change.num_present_a_open_b + change.num_present_b_open_a


def _reason_cells(num_open_b: int, num_open_a: int, seldom_denied_in: Sequence[str], has_reasons: bool) -> list[Cell]:
    runs = " and ".join(name.upper() for name in seldom_denied_in)
    reason = f"{runs} seldom {'says' if len(seldom_denied_in) == 1 else 'say'} no" if runs else ""
    return [num_open_b, num_open_a, reason] if has_reasons else []


def _groups(difference: RunDifference, most_groups: int | None) -> Table:
    shown = difference.groups[:most_groups]
    num_more = len(difference.groups) - len(shown)
    more = f"; {num_more:,} more are not listed" if num_more else ""
    has_reasons = any(item.seldom_denied_in for item in shown)
    return table(
        f"Share of private pictures by {difference.by}, smallest p first{more}",
        [shortened(difference.by), "pictures", "known", "in A", "in B", "only A", "only B", "p", "p (Holm)"]
        + list(_REASON_HEADS) * has_reasons,
        [
            [
                shortened(item.group),
                item.num_pairs,
                item.num_pictures,
                percent(item.rate_a),
                percent(item.rate_b),
                item.num_only_a,
                item.num_only_b,
                p_text(item.p_value),
                p_text(item.p_holm),
                *_reason_cells(
                    item.num_private_a_open_b, item.num_private_b_open_a, item.seldom_denied_in, has_reasons
                ),
            ]
            for item in shown
        ],
    )


MAX_GROUPS_ON_PAGE = 2_000
"""Number of groups on the page, which stays below 1.5 MB; JSON has all."""

MINOR = frozenset(
    ["pictures", "known", "only A", "only B", "doubt", "κ", "p", "in A, open in B", "in B, open in A", "95 % interval"]
)
"""Columns that a phone has no room for."""


def render(difference: RunDifference) -> str:
    """Return the comparison as one HTML page, which needs no other file and may load none."""
    return fill(
        "diff/page.html.j2",
        difference=difference,
        findings=list(findings(difference)),
        notes=list(notes(difference)),
        minor=MINOR,
        by=shortened(difference.by),
        tables=list(tables(difference, MAX_GROUPS_ON_PAGE)),
    )
