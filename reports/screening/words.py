"""Output of `screen fit`."""

from collections.abc import Iterator

from reports.screening.compute import MadeScreen, Tried
from reports.words import Document, Table, number, percent, table
from scoring.screen.record import LevelBound, ScreenRecord


def fit_document(made: MadeScreen, num_labelled: int) -> Document:
    """Return the output of `screen fit`. num_labelled: pictures with a label that were found in the corpus."""
    record = made.record
    lines = [
        f"labels   {num_labelled:,} pictures: {made.num_training:,} to learn from, {made.num_validation:,} to choose "
        f"by, {record.labelled.num_pictures:,} for the bound",
        f"looks at {', '.join(modality.name for modality in record.modalities)}",
        *bound_lines(record),
    ]
    return Document(lines, [_tried(made.tried)], [f"the bound holds if {record.assumption}"])


HARDLY_ANYTHING_LEFT_OUT = 0.95
"""Share of the pictures that pass to the engine from which on a screen does not pay."""


def bound_lines(record: ScreenRecord) -> Iterator[str]:
    """Yield what the labels prove, one line each."""
    bound, confidence = record.bound, percent(record.confidence, decimals=0)
    yield (
        f"misses   at most {percent(bound.miss_high)} (below {number(bound.threshold, '.4f')}: {bound.num_missed:,} of "
        f"{bound.num_private:,} labelled) of the private pictures, with {confidence} confidence"
    )
    for level in record.levels:
        yield f"level {level.level}  {_level(level)}"
    if not record.levels:
        yield "levels   unknown: the labels say private or public, and no attributes"
    labelled = record.labelled
    passed = 1 - labelled.num_screened / labelled.num_pictures if labelled.num_pictures else None
    yield f"passes   {percent(passed)} of the pictures to the engine, and {percent(record.guard_share)} of the others"
    if passed is not None and passed > HARDLY_ANYTHING_LEFT_OUT:
        yield (
            "caution  it leaves hardly anything out, so a scan with it takes longer than one without; let it see more "
            "of the pictures (--modality), or allow a higher --target-miss"
        )


def _level(level: LevelBound) -> str:
    missed = f"{level.num_missed:,} of {level.num_private:,} labelled pictures missed"
    if level.miss_high is not None:
        return f"{missed}: at most {percent(level.miss_high)} by these alone"
    promise = "; --target-miss-level-1 makes a promise" if level.level == 1 else ""
    return f"{missed}; no bound, since they helped to choose the threshold{promise}"


def _tried(tried: tuple[Tried, ...]) -> Table:
    return table(
        "On validation pictures; mean and gate join the modalities, and the one with the smaller log loss is taken",
        ["looks by", "log loss", "F1 private", "accuracy", "passes at the target", "taken"],
        [
            [each.name, each.log_loss, each.f1, each.accuracy, percent(each.passed), "yes" if each.is_taken else ""]
            for each in tried
        ],
        (0, 5),
    )
