"""Choice of VISPR pictures to annotate for a severity benchmark, by the levels of their VISPR labels.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", section 4.1: pictures with sensitive content for levels 1 and 2,
"safe" ones for levels 3 and 4, more of level 2 without faces; the test split for evaluation, validation for tuning.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from scoring import severity
from scoring.labels.judgements import Floats, judgements
from scoring.labels.table import attribute_values, to_labels
from scoring.taxonomy import KEYS

PAPER_COUNTS = {1: 2860, 2: 1025, 3: 1363, 4: 1488}
"""Evaluation pictures of the paper by level, as annotated."""

LEVEL_1, LEVEL_2, NO_FACE, SAFE = "level 1", "level 2", "level 2 without face", "level 3 or 4"
"""Classes of candidates. The level of a safe picture is known only after annotation."""

USES = {"test": "evaluation", "validation": "tuning"}


@dataclass(frozen=True)
class Candidates:
    labels: pa.Table
    """One row per candidate, in `LABELS_SCHEMA`: its class, and its split: test (evaluation) or validation (tuning)."""

    num_found: dict[str, dict[str, int]]
    """Use (evaluation, tuning) -> class -> number of candidates before the draw."""

    too_few: tuple[str, ...]
    """Levels with fewer pictures than the paper, one sentence each."""


def candidates(
    vispr: pa.Table,
    like_paper: bool = False,
    annotated: pa.Table | None = None,
    seed: int = 0,
    num_tuning: int | None = None,
) -> Candidates:
    """Choose candidates. vispr: imported labels. like_paper: draw as many evaluation pictures of each level as the
    paper has.

    annotated: labels of a consensus, which give the level of each picture; without them levels 3 and 4 are drawn
    together, as many as both have. Candidates of level 2 without a face are drawn before others of level 2.
    num_tuning: how many tuning pictures are drawn, at random; None for all.
    """
    in_use = pc.is_in(vispr["split"], pa.array(list(USES)))
    vispr = vispr.filter(in_use)
    classes = _classes(vispr)
    members = np.flatnonzero(classes != "")
    in_classes = vispr.take(pa.array(members))
    classes = classes[members]
    uses = np.array([USES[split] for split in in_classes["split"].to_pylist()], object)
    num_found = {
        use: {
            str(class_): int(((uses == use) & (classes == class_)).sum())
            for class_ in (LEVEL_1, LEVEL_2, NO_FACE, SAFE)
        }
        for use in USES.values()
    }
    evaluation, tuning = (np.flatnonzero(uses == use) for use in ("evaluation", "tuning"))
    too_few = tuple[str, ...]()
    if like_paper:
        groups = _groups(in_classes, classes, annotated)
        evaluation, too_few = _drawn(groups, uses == "evaluation", classes, seed)
    if num_tuning is not None:
        if len(tuning) < num_tuning:
            too_few = (*too_few, f"tuning: {len(tuning):,} of {num_tuning:,} pictures that were asked for")
        tuning = np.random.default_rng(seed).permutation(tuning)[:num_tuning]
    chosen = np.sort(np.concatenate([evaluation, tuning]))
    rows = in_classes.take(pa.array(chosen))
    columns = {name: rows[name].to_pylist() for name in ("sha256", "key", "split", "licence")}
    columns |= {"annotator": ["vispr candidates"] * rows.num_rows, "class": classes[chosen].tolist()}
    return Candidates(to_labels(columns, rows.num_rows), num_found, too_few)


def _classes(vispr: pa.Table) -> npt.NDArray[np.object_]:
    """Return the classes, shape (rows,); "" for pictures that are not candidates."""
    values = attribute_values(vispr)
    levels = severity.level_of(severity.lexicographic(severity.level_counts(values == 1)))
    has_face = values[:, KEYS.index("biometrics")] > 0  # complete or in part
    is_safe = np.array([private == 0 for private in vispr["private"].to_pylist()])
    classes = np.full(vispr.num_rows, "", object)
    classes[is_safe] = SAFE
    classes[~is_safe & (levels == 1)] = LEVEL_1
    classes[~is_safe & (levels == 2)] = LEVEL_2
    classes[~is_safe & (levels == 2) & ~has_face] = NO_FACE
    return classes


def _groups(in_classes: pa.Table, classes: npt.NDArray[np.object_], annotated: pa.Table | None) -> dict[str, Floats]:
    """Return group to draw -> whether each row belongs to it, shape (rows,)."""
    if annotated is None:
        is_level_2 = np.isin(classes.astype(str), [LEVEL_2, NO_FACE])
        return {"1": classes == LEVEL_1, "2": is_level_2, "3 and 4": classes == SAFE}
    both = judgements([("candidates", in_classes), ("annotation", annotated)])
    if len(both.annotators) != 2:
        raise LabelsError("the labels for --labels have several annotators; join them with labels consensus")
    # Pictures come in the order of the first table, so those after its last row are not candidates.
    levels = both.levels()[1][: in_classes.num_rows]
    levels = np.where(levels == 0, 4, levels)  # the paper has no level 0
    return {str(level): levels == level for level in PAPER_COUNTS}


def _drawn(
    groups: dict[str, Floats], is_evaluation: npt.NDArray[np.bool_], classes: npt.NDArray[np.object_], seed: int
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    order = np.random.default_rng(seed).permutation(len(classes))
    order = order[np.argsort(classes[order] != NO_FACE, kind="stable")]
    drawn, too_few = [np.zeros(0, np.int64)], []
    for name, is_member in groups.items():
        num_wanted = PAPER_COUNTS[3] + PAPER_COUNTS[4] if name == "3 and 4" else PAPER_COUNTS[int(name)]
        pool = [index for index in order if is_member[index] and is_evaluation[index]]
        if len(pool) < num_wanted:
            too_few.append(f"level {name}: {len(pool):,} of {num_wanted:,} pictures that the paper has")
        drawn.append(np.array(pool[:num_wanted], np.int64))
    return np.concatenate(drawn), tuple(too_few)
