"""Pictures that are written again: cleaned, or covered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ingest.errors import PolicyError
from ingest.formats.released import NotReleased, Rewritten
from ingest.images.cleaning import FORMATS, cleaned
from ingest.images.covering import TARGETS
from scoring.engines.detectors.covering import cover_targets, cover_whole, second_look
from scoring.policies.policy import WHOLE_IMAGE, Policy

NOT_CLEANED = "not_cleaned"
"""The reason of a `NotReleased`."""


@dataclass(frozen=True)
class Rewriter:
    """Writes the pictures of one shard again, as a policy wants it."""

    policy: Policy
    decisions: Mapping[int, Mapping[str, Any]]
    """Index of each released image -> its rule, its status, number of scanned frames, and boxes."""

    def __call__(self, index: int, encoded: bytes) -> Rewritten | NotReleased:
        decided = self.decisions[index]
        rule = next((r for r in self.policy.rules if r.name == decided["rule"] and r.then == "redact"), None)
        if rule is not None:
            if WHOLE_IMAGE in rule.cover:
                return cover_whole(encoded, self.policy.cover_method)
            falls_back = rule.fallback == "image"
            return cover_targets(encoded, rule.cover, decided["boxes"] or (), self.policy.cover_method, falls_back)
        if self.policy.files == "as-is":
            return Rewritten(encoded)
        if decided["status"] != "scored":
            return NotReleased(NOT_CLEANED, "it was not scanned, so it cannot be cleaned")
        content = cleaned(encoded, decided["num_frames_scanned"] or 1)
        if content is None:
            message = f"its file cannot be cleaned without a change of its pixels ({', '.join(FORMATS)} can be)"
            return NotReleased(NOT_CLEANED, message)
        return Rewritten(content)


def rewriter_of(policy: Policy, rows: pa.Table, decisions: pa.Table) -> Rewriter:
    """rows: of one shard, as many as decisions, with what `Policy.columns` names."""
    names = [name for name in ("status", "num_frames_scanned", "boxes") if name in rows.column_names]
    kept = {
        index: {"rule": rule, "boxes": None} | row
        for index, rule, action, row in zip(
            decisions["index"].to_pylist(),
            decisions["rule"].to_pylist(),
            decisions["action"].to_pylist(),
            rows.select(names).to_pylist(),
            strict=True,
        )
        if action != "drop"
    }
    return Rewriter(policy, kept)


def refuse_uncoverable(policy: Policy) -> None:
    """PolicyError for a rule that covers what the second look cannot judge. EngineError if there can be no look."""
    if not any(name != WHOLE_IMAGE for rule in policy.rules for name in rule.cover):
        return
    engine = second_look()
    for rule in policy.rules:
        for name in rule.cover:
            if name not in (*TARGETS, *engine.assessed, WHOLE_IMAGE):
                raise PolicyError(
                    f'{policy.file}: rule "{rule.name}" covers {name}, and the {engine.name} engine, which examines '
                    f"covered pictures, does not judge it; there are: {', '.join([*engine.assessed, WHOLE_IMAGE])}"
                )
