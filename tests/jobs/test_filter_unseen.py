"""Files that hold more than was scanned: what the shipped policies and one's own rules make of them."""

from collections.abc import Sequence

import numpy as np
import pytest

from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.scanning.batch import BatchScorer
from scoring.assessment import Assessment, Outcome, View
from scoring.policies.policy_file import load_policy, policy_bytes
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.ingest.crafted import HIDING, SHOWING

SHIPPED = {"strict": "drop", "research": "flag", "identity-documents-only": "flag"}


class FindsNothing:
    """An engine to which every picture is harmless."""

    def assess(self, views: Sequence[View | None]) -> list[Outcome]:
        return [Assessment(np.zeros(len(KEYS), dtype=np.float32)) for _ in views]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_that_no_engine_saw_is_not_released_without_a_word(name: str) -> None:
    hidden = {key: maker() for key, (maker, _) in HIDING.items()}
    shown = {key: maker() for key, maker in SHOWING.items()}
    samples = [Sample("s", i, key, None, content) for i, (key, content) in enumerate((hidden | shown).items())]
    rows = BatchScorer(FindsNothing(), ImageLimits(), num_threads=2).rows(samples)
    decided = {row["key"]: row for row in load_policy(policy_bytes(name), name).decide(rows).to_pylist()}
    assert {key: (decided[key]["action"], decided[key]["rule"]) for key in hidden} == dict.fromkeys(
        hidden, (SHIPPED[name], "not-fully-scanned")
    )
    assert "content that was not scanned" in decided["app9.jpg"]["reason"]
    assert {key: decided[key]["action"] for key in shown} == dict.fromkeys(shown, "keep")


WHOLE = Facts("s", 2, "k", None, 9, "00", num_frames=1, num_frames_scanned=1, unseen=(), unseen_bytes=0)
FRAMES = Facts("s", 3, "k", None, 9, "00", num_frames=20, num_frames_scanned=16, unseen=("frames",), unseen_bytes=70)


@pytest.mark.parametrize(
    ("condition", "actions"),
    [
        ("len(unseen) > 0", ["keep", "drop"]),
        ("list_contains(unseen, 'frames')", ["keep", "drop"]),
        ("list_contains(unseen, 'trailing_data')", ["keep", "keep"]),
        ("unseen_bytes > 0", ["keep", "drop"]),
        ("unseen_bytes > 70", ["keep", "keep"]),
    ],
)
def test_rules_can_name_what_was_not_scanned(condition: str, actions: list[str]) -> None:
    text = f'name: p\ndefault: keep\nrules:\n  - {{name: r, when: "{condition}", then: drop, reason: r}}\n'
    rows = to_table([WHOLE, FRAMES], FindsNothing().assess([None, None]))
    assert load_policy(text.encode(), "p.yaml").decide(rows)["action"].to_pylist() == actions
