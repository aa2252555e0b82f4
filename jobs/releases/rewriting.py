"""Pictures that are written again: cleaned, or covered."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa

from ingest.errors import EngineError, LabelsError, PolicyError, number_of
from ingest.formats.released import NotReleased, Rewritten
from ingest.images.files import formats
from ingest.images.pixels import TARGETS
from ingest.storage.place import place
from jobs.releases.decisions import TAKEN_DOWN_BEFORE
from jobs.releases.matching import pdq_texts
from jobs.runtime.processes import default_processes
from reports.words import SIDES, first_frame_boxes
from scoring.assessment import Engine, EngineDescription
from scoring.engines import engine_module
from scoring.engines.detectors.covering import Demands, Judged, cover_targets, cover_whole, examiner
from scoring.labels.reviews import ReviewedBox, reviewed_boxes
from scoring.policies.policy import WHOLE_IMAGE, Policy, Rule, SecondEngine
from scoring.taxonomy import ATTRIBUTES

NOT_CLEANED, REMOVED = "not_cleaned", "removed_before"
"""Reasons of a `NotReleased`."""

ReviewedBoxes = Mapping[str, Sequence[Sequence[ReviewedBox]]]
"""sha256 -> the boxes as each person who changed some left them."""

_LEVEL_OF = {attribute.key: attribute.level for attribute in ATTRIBUTES}

_ROUNDING = 2e-4
"""Sides of boxes are rounded in answers, and in what people saw."""


@cache
def _described(engine: SecondEngine) -> EngineDescription:
    """EngineError if the engine cannot run here."""
    return engine_module(engine.name).describe(engine.options)


@cache
def _loaded(engine: SecondEngine) -> Engine:
    """Load the engine where it is first needed, once per process."""
    return engine_module(engine.name).load(engine.options)


def shown_engine(engine: SecondEngine) -> str:
    return f"{engine.name} ({_described(engine).protocol})"


def refuse_gpu(engine: SecondEngine) -> None:
    """Raise EngineError if the engine takes a GPU, which copies on Ray are not given."""
    if _described(engine).num_gpus:
        raise EngineError(
            f"verify: {engine.name} takes a GPU, and copies on Ray have none; write the release in this process "
            "(--executor inline), or use a server (engine: openai)"
        )


def processes_for(policy: Policy) -> int:
    """Return how many processes copy, each with its engines."""
    return default_processes(None if policy.verify is None else _described(policy.verify))


@dataclass(frozen=True)
class Rewriter:
    """Writes the pictures of one shard again, as a policy wants it."""

    policy: Policy

    removed: frozenset[str]
    """As in `Decider`."""

    decisions: Mapping[int, Mapping[str, Any]]
    """Index of each released image -> its rule, its status, number of scanned frames, boxes, and what people said of
    these (`reviewed`)."""

    def __call__(self, index: int, encoded: bytes) -> Rewritten | NotReleased:
        decided = self.decisions[index]
        rule = next((r for r in self.policy.rules if r.name == decided["rule"] and r.then == "redact"), None)
        if rule is not None:
            covered = self._covered(encoded, rule, decided)
            if isinstance(covered, NotReleased):
                return covered
            return replace(covered, pdq=tuple(pdq_texts(encoded)))
        if self.policy.files == "as-is":
            return Rewritten(encoded)
        if decided["status"] != "scored":
            return NotReleased(NOT_CLEANED, "it was not scanned, so it cannot be cleaned")
        from ingest.images.rewriting import cleaned  # most releases need no decoder

        made = cleaned(encoded, decided["num_frames_scanned"] or 1)
        if made is None:
            message = f"its file cannot be cleaned without a change of its pixels ({', '.join(formats.CLEANED)} can be)"
            return NotReleased(NOT_CLEANED, message)
        if hashlib.sha256(made.content).hexdigest() in self.removed:
            return NotReleased(REMOVED, TAKEN_DOWN_BEFORE)
        return Rewritten(made.content, colours=made.colours)

    def _covered(self, encoded: bytes, rule: Rule, decided: Mapping[str, Any]) -> Rewritten | NotReleased:
        if WHOLE_IMAGE in rule.cover:
            return cover_whole(encoded, self.policy.cover_method)
        falls_back = rule.fallback == "image"
        boxes = decided["boxes"] or ()
        judged = _judged(boxes, decided["reviewed"], rule)
        demands = Demands(self.policy.absent)
        if (engine := self.policy.verify) is not None:
            loaded = _loaded(engine)
            demands = replace(demands, verifier=lambda view: loaded.assess([view])[0], verifies=_described(engine))
        return cover_targets(encoded, rule.cover, boxes, self.policy.cover_method, falls_back, judged, demands)


def boxes_of_people(url: str | None, policy: Policy) -> ReviewedBoxes:
    """Read the boxes of RUN/reviews; none without a URL. PolicyError if nothing is covered, LabelsError as there."""
    if url is None:
        return {}
    if not policy.redacts:
        raise PolicyError("--boxes says what to cover, and no rule of the policy covers anything; leave it out")
    if not place(url).is_dir():
        raise LabelsError(f"--boxes {url} is no folder; give RUN/reviews")
    return reviewed_boxes(place(url))


def notes_of_looks(reviewed: ReviewedBoxes, verify: SecondEngine | None) -> Iterator[str]:
    """Yield a line about the boxes that people left, and one about the other engine of the second look."""
    if reviewed:
        yield f"  boxes of {number_of(len(reviewed), 'picture')} are as people left them"
    if verify is not None:
        is_fake = "; its answers are made up" if _described(verify).is_fake else ""
        yield f"  covered pictures are examined by {shown_engine(verify)}, too{is_fake}"


def boxes_sha256(reviewed: ReviewedBoxes) -> str | None:
    """Return the hash of all boxes, in whatever order people answered; None without any."""
    if not reviewed:
        return None
    texts = {
        sha256: sorted(json.dumps([box.model_dump() for box in answer]) for answer in answers)
        for sha256, answers in reviewed.items()
    }
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def _judged(boxes: Sequence[Mapping[str, Any]], reviewed: Sequence[Sequence[ReviewedBox]], rule: Rule) -> Judged:
    """Return what people say of the boxes of a row: one is spared if everyone who changed the picture removed it."""
    named = {*rule.cover} | ({"biometrics"} if "faces" in rule.cover else set())
    covered = [
        (box.x_min, box.y_min, box.x_max, box.y_max)
        for answer in reviewed
        for box in answer
        if box.by == "person" and (box.attribute in named or _LEVEL_OF.get(box.attribute or "", 1) in (1, 2))
    ]
    spared = [
        (box["attribute"], (box["x_min"], box["y_min"], box["x_max"], box["y_max"]))
        for box in (first_frame_boxes(boxes) if reviewed else ())
        if not any(_is_box(box, other) for answer in reviewed for other in answer if other.by == "model")
    ]
    return Judged(tuple(covered), tuple(spared), frozenset(rule.spare))


def _is_box(box: Mapping[str, Any], reviewed: ReviewedBox) -> bool:
    """Return whether a box that a person has left is this one of the row."""
    return box["attribute"] == reviewed.attribute and all(
        abs(box[side] - getattr(reviewed, side)) <= _ROUNDING for side in SIDES
    )


def rewritten_rows(rows: pa.Table, decisions: pa.Table, reviewed: ReviewedBoxes) -> dict[int, dict[str, Any]]:
    """Return `Rewriter.decisions`. rows: of one shard, as many as decisions, with what `Policy.columns` names."""
    names = [name for name in ("status", "num_frames_scanned", "boxes") if name in rows.column_names]
    decided = decisions.select(["index", "sha256", "rule", "action"]).to_pylist()
    return {
        decision["index"]: {"rule": decision["rule"], "boxes": None}
        | {"reviewed": reviewed.get(decision["sha256"] or "", ())}
        | row
        for decision, row in zip(decided, rows.select(names).to_pylist(), strict=True)
        if decision["action"] != "drop"
    }


def refuse_uncoverable(policy: Policy) -> None:
    """Raise PolicyError for a rule that covers what the second look cannot judge, or if the other engine has nothing to
    judge; EngineError if an engine cannot run here."""
    if policy.verify is not None:
        _refuse_unverifiable(policy, policy.verify)
    if not any(name != WHOLE_IMAGE for rule in policy.rules for name in rule.cover):
        return
    engine = examiner()
    for rule in policy.rules:
        for name in rule.cover:
            if name not in (*TARGETS, *engine.assessed, WHOLE_IMAGE):
                raise PolicyError(
                    f'{policy.file}: rule "{rule.name}" covers {name}, and the {engine.name} engine, which examines '
                    f"covered pictures, does not judge it; there are: {', '.join([*engine.assessed, WHOLE_IMAGE])}"
                )


def _refuse_unverifiable(policy: Policy, engine: SecondEngine) -> None:
    demands = Demands(policy.absent, verifies=_described(engine))
    rules = [rule for rule in policy.rules if rule.then == "redact" and WHOLE_IMAGE not in rule.cover]
    if not rules:
        raise PolicyError(
            f"{policy.file}: verify names an engine that examines covered pictures, and no rule covers areas; leave it "
            "out"
        )
    for rule in rules:
        if not demands.verified(rule.cover):
            raise PolicyError(
                f'{policy.file}: rule "{rule.name}" covers nothing that the {engine.name} engine judges by itself; add '
                "residual_max_level: 3 to the policy, so that it must find nothing of level 1 or 2"
            )
