"""The promise of a policy with `guarantee`: what labels prove, and the threshold that follows.

For a labelled private image, only the outcome counts, not what decides it. One that the policy drops is caught at any
threshold; one that a rule of the policy keeps, or that has no score, is missed at any threshold.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, PolicyError, number_of
from ingest.storage.place import Place, place
from jobs.releases.decider import Decider, ScoreThreshold, can_be_dropped, readable, scores_of
from jobs.releases.record import GuaranteeRecord
from reports.evaluation.answers import truth_of
from reports.labels.agreed import Places, agreed
from reports.labels.joining import Drawn, LabelledRows, labelled_rows
from reports.statistics.binary import Flags, Numbers
from reports.statistics.shares import Bound, Row, bound_of, evenly_taken, num_needed
from scoring.labels.table import labels_content, read_judged
from scoring.policies.policy import Promise
from scoring.privacy import protocol_name
from scoring.runs.record import RunRecord
from scoring.sql.expressions import shown
from scoring.table import SCHEMA, Col

BY = (Col.PROB_PRIVATE, Col.HOLISTIC_SCORE, Col.S_LEX, Col.SCORE)
"""The first of these columns that the labelled private images have is used, unless the user names one."""

ASSUMPTIONS: dict[Drawn, str] = {
    "evenly": "the labelled private pictures are a random sample of the private pictures of the run, the labels are "
    "right, and neither the policy nor the score was chosen by them",
    "audit": "of the pictures that the audit drew, those without a label are like the others, the labels are right, "
    "and neither the policy nor the score was chosen by them",
}
"""Labels that call hard private pictures public break the promise: with half of them overlooked, a threshold for 90 %
kept it in 61 % of simulated draws."""

PROMISE = (
    "at least {recall} of the private pictures of the run are dropped, with {confidence} confidence; a picture with "
    "copies counts once, and is dropped if all of them are; nothing is promised for a single category"
)

MAX_NAMED = 3
"""Labelled private pictures that an error names."""


@dataclass(frozen=True)
class Guarantee:
    """A threshold and what it promises."""

    threshold: ScoreThreshold
    record: GuaranteeRecord

    at_threshold: tuple[str, ...]
    """SHARD/KEY of the labelled private pictures that have the number of the threshold, sorted."""

    def all_dropped(self) -> str:
        """Return why every image with a score is dropped, in words."""
        record, num = self.record, len(self.at_threshold)
        labelled = number_of(record.num_private_labelled, "labelled private picture")
        named = ", ".join(shown(name) for name in self.at_threshold[:MAX_NAMED])
        more = f" and {num - MAX_NAMED:,} more" if num > MAX_NAMED else ""
        return (
            f"every scored image is dropped: {num:,} of {labelled} {'has' if num == 1 else 'have'} the lowest "
            f"{shown(record.by)} of the run, {readable(self.threshold.lowest)} ({named}{more}), and "
            f"{record.num_missed_allowed:,} may be missed"
        )


def guarantee(url: str, run: Place, record: RunRecord, decider: Decider) -> Guarantee:
    """Return the threshold and what it promises, by `guarantee` of the policy. url: labels of images of the run.

    LabelsError with the number of missing labels if there are too few, or if too many private images have no score and
    are kept by the policy. PolicyError if the policy keeps quarantined images, of which an audit draws none.
    """
    promise = decider.policy.guarantee
    assert promise is not None
    labels = agreed(read_judged(url))
    rows = labelled_rows(run, record, labels, SCHEMA.names, promise.drawn)
    if rows.drawn == "audit" and decider.policy.quarantined != "drop":
        raise PolicyError(
            f"{decider.policy.file}: quarantined images are kept, and the audit sample holds none of them: how many "
            "are private is unknown; write quarantined: drop"
        )
    private = _private(rows, url)
    decided = private.rows.filter(pa.array(~private.is_undecided[private.pictures]))
    by = promise.by or _first_with_scores(decided, record)
    lowest = np.full(len(private.is_undecided), np.inf)  # of the copies of a picture, the worst outcome counts
    np.minimum.at(lowest, private.pictures, _outcomes(private.rows, decider, by))
    scores, undecided = lowest[~private.is_undecided], lowest[private.is_undecided]
    bound = bound_of(scores, promise.recall, promise.confidence, undecided)
    if bound is None:
        raise _too_few(len(scores), private, rows, promise)
    num_as_private = bound.num_private - len(scores)
    counts_as_private = ~private.is_undecided
    counts_as_private[np.flatnonzero(private.is_undecided)[np.argsort(undecided)[:num_as_private]]] = True
    if bound.threshold == -np.inf:
        raise _no_threshold(lowest[counts_as_private], bound, by, promise)
    is_policy_enough = bound.threshold == np.inf
    confidence, recall = percent(promise.confidence), percent(promise.recall)
    promised = GuaranteeRecord(
        recall=promise.recall,
        confidence=promise.confidence,
        by=by,
        threshold=None if is_policy_enough else bound.threshold,
        num_private_labelled=bound.num_private,
        num_missed=bound.num_missed,
        num_missed_allowed=bound.num_missed_allowed,
        failure_probability=bound.failure_probability,
        drawn=rows.drawn,
        num_private_drawn=private.num_drawn,
        num_undecided=len(undecided),
        num_undecided_as_private=num_as_private,
        labels_sha256=_sha256(url),
        assumption=ASSUMPTIONS[rows.drawn],
        promise=PROMISE.format(recall=recall, confidence=confidence),
    )
    at_threshold = _names(private, counts_as_private & (lowest == bound.threshold))
    return Guarantee(ScoreThreshold(by, bound.threshold), promised, at_threshold)


def percent(share: float) -> str:
    return f"{100 * share:.4g} %"


@dataclass(frozen=True)
class _Private:
    """The labelled pictures that are private or undecided, and that the proof may use."""

    rows: pa.Table
    """Their rows; for a picture with copies, all that are known."""

    pictures: Places
    """Shape (rows,): the number of each row's picture, from 0."""

    is_undecided: Flags
    """Shape (pictures,): people differ, or cannot say."""

    num_drawn: int
    """Private pictures before those of an audit were thinned."""


def _private(rows: LabelledRows, url: str) -> _Private:
    """Return the private and undecided pictures. LabelsError if no label says private, or some say too little."""
    truth, is_undecided = truth_of(rows.joined.labels), np.asarray(rows.undecided[:, 0], dtype=np.bool_)
    num_open = truth_of(rows.joined.labels.filter(pa.array(~is_undecided))).num_open
    if num_open:
        raise LabelsError(
            f"{url}: of {number_of(num_open, 'labelled picture')} only some of the attributes are "
            "labelled that make a picture private (levels 1 and 2), so it is not known whether they are; fill in the "
            "column private, or all of these attributes"
        )
    is_private = (truth.private == 1) & ~is_undecided
    if not is_private.any():
        raise LabelsError(f"{url}: no label says that a picture of the run is private")
    if rows.sample is not None:
        return _of_audit(rows, is_private, is_undecided, rows.sample.design.least_probability)
    is_used = is_private | is_undecided
    _, first, pictures = np.unique(rows.joined.label_places[is_used], return_index=True, return_inverse=True)
    undecided = is_undecided[is_used][first]
    return _Private(rows.joined.rows.filter(pa.array(is_used)), pictures, undecided, int((~undecided).sum()))


def _of_audit(labelled: LabelledRows, is_private: Flags, is_undecided: Flags, least: float) -> _Private:
    """Return the pictures of an audit sample that `evenly_taken` leaves; undecided if labels of copies differ."""
    assert labelled.sample is not None
    assert labelled.copies is not None
    answers = dict[str, set[str]]()
    hashes = labelled.joined.rows[Col.SHA256].to_pylist()
    for sha256, private, undecided in zip(hashes, is_private.tolist(), is_undecided.tolist(), strict=True):
        answers.setdefault(sha256, set()).add("undecided" if undecided else "private" if private else "public")
    wanted = {sha256 for sha256, given in answers.items() if given != {"public"}}
    rows = labelled.copies.filter(pc.is_in(labelled.copies[Col.SHA256], pa.array(wanted, pa.string())))
    rows_of = dict[str, list[Row]]()
    for sha256, *row in zip(*(rows[name].to_pylist() for name in (Col.SHA256, Col.SHARD, Col.INDEX)), strict=True):
        rows_of.setdefault(sha256, []).append((row[0], row[1]))
    drawn = evenly_taken(rows_of, labelled.sample.probabilities(), least, labelled.sample.design.seed)
    numbers = pc.index_in(rows[Col.SHA256], pa.array(drawn, pa.string()))
    return _Private(
        rows.filter(pc.is_valid(numbers)),
        np.asarray(numbers.drop_null().to_numpy(), dtype=np.int64),
        np.array([answers[sha256] != {"private"} for sha256 in drawn], dtype=np.bool_),
        num_drawn=sum(given == {"private"} for given in answers.values()),
    )


def _sha256(labels: str) -> str:
    """Return the hash of the file; of a folder of labels, the hash of the lines that `sha256sum *` would print."""
    folder = place(labels)
    if not folder.is_dir():
        return hashlib.sha256(labels_content(labels)).hexdigest()
    lines = [f"{hashlib.sha256(folder.at(name).read()).hexdigest()}  {name}\n" for name in sorted(folder.names())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _first_with_scores(rows: pa.Table, record: RunRecord) -> str:
    for name in BY:
        if rows[name].null_count < rows.num_rows or not rows.num_rows:
            return name
    if protocol_name(record.engine) == "binary":
        raise LabelsError(
            "this run says yes or no without probabilities, so there is no number for a threshold; scan with an engine "
            "that gives them, or write by: private_answer below guarantee to drop what it answers with yes"
        )
    raise LabelsError("the labelled private images have no score in this run; name another number: guarantee: {by: …}")


def _outcomes(rows: pa.Table, decider: Decider, by: str) -> Numbers:
    """Return the score of each row, shape (n,): +inf if the policy drops it, −inf if no threshold can."""
    decisions = decider.decide(rows)
    scores = scores_of(rows, by).fill_null(-np.inf).to_numpy()
    is_dropped = pc.equal(decisions["action"], "drop").to_numpy()
    return np.where(is_dropped, np.inf, np.where(can_be_dropped(decisions).to_numpy(), scores, -np.inf))


def _names(private: _Private, is_named: Flags) -> tuple[str, ...]:
    """Return SHARD/KEY of one row of each of these pictures, sorted. is_named: shape (pictures,)."""
    shards, keys = private.rows[Col.SHARD].to_pylist(), private.rows[Col.KEY].to_pylist()
    names = dict(zip(private.pictures.tolist(), map("/".join, zip(shards, keys, strict=True)), strict=True))
    return tuple(sorted(names[picture] for picture in np.flatnonzero(is_named).tolist()))


def _too_few(num: int, private: _Private, rows: LabelledRows, asked: Promise) -> LabelsError:
    needed = num_needed(asked.recall, asked.confidence)
    promise = f"recall {asked.recall:g} with confidence {asked.confidence:g}"
    if needed is None:
        return LabelsError(f"{promise} cannot be proven by labels; ask for less")
    thinned = ""
    if rows.drawn == "audit" and num < private.num_drawn:
        thinned = f" ({private.num_drawn:,} were drawn with unequal probabilities; {num:,} are left once all are equal)"
    return LabelsError(
        f"{promise} needs at least {needed:,} labelled private pictures with none missed; there are {num:,}{thinned}, "
        f"so {needed - num:,} {'is' if needed - num == 1 else 'are'} missing"
    )


def _no_threshold(scores: Numbers, bound: Bound, by: str, asked: Promise) -> LabelsError:
    num = int((scores == -np.inf).sum())
    stay, they_have, them = ("stays", "it has", "it") if num == 1 else ("stay", "they have", "them")
    return LabelsError(
        f"{number_of(num, 'labelled private picture')} of {bound.num_private:,} {stay} at any threshold, and recall "
        f"{asked.recall:g} with confidence {asked.confidence:g} allows {bound.num_missed_allowed:,}: {they_have} "
        f"no {shown(by)}, or a rule of the policy keeps {them}; let the policy drop {them}, by quarantined: drop or by "
        f'a rule such as when: "{shown(by)} IS NULL"'
    )
