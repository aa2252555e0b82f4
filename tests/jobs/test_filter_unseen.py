"""Files that hold more than was scanned: what the shipped policies and one's own rules make of them."""

from collections.abc import Sequence

import numpy as np
import pytest

from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.scanning.batch import BatchScorer
from scoring.assessment import Assessment, Outcome, View
from scoring.policies.policy_file import load_policy, policy_bytes
from scoring.taxonomy import KEYS
from tests.ingest.crafted import HIDING, SHOWING

SHIPPED = {"strict": "drop", "research": "flag", "identity-documents-only": "flag"}


class FindsNothing:
    """An engine to which every picture is harmless."""

    def assess(self, views: Sequence[View | None]) -> list[Outcome]:
        return [Assessment(np.zeros(len(KEYS), dtype=np.float32)) for _ in views]


@pytest.mark.slow
def test_a_card_that_no_engine_saw_is_not_released_without_a_word() -> None:
    hidden = {key: maker() for key, (maker, _) in HIDING.items()}
    shown = {key: maker() for key, maker in SHOWING.items()}
    samples = [Sample("s", i, key, None, content) for i, (key, content) in enumerate((hidden | shown).items())]
    rows = BatchScorer(FindsNothing(), ImageLimits(), num_threads=2).rows(samples)
    for name, action in SHIPPED.items():
        decided = {row["key"]: row for row in load_policy(policy_bytes(name), name).decide(rows).to_pylist()}
        found = {key: (decided[key]["action"], decided[key]["rule"]) for key in hidden}
        assert found == dict.fromkeys(hidden, (action, "not-fully-scanned")), name
        assert "content that may not have been scanned" in decided["app9.jpg"]["reason"]
        assert {key: decided[key]["action"] for key in shown} == dict.fromkeys(shown, "keep")
