"""Files that hold more than was scanned: what the shipped policies and one's own rules make of them."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.scanning.batch import BatchScorer
from scoring.assessment import Assessment, Outcome, View
from scoring.policies.policy_file import load_policy, policy_bytes
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.ingest.hiding import HIDING, SHOWING
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar

SHIPPED = {"strict": "drop", "research": "flag", "identity-documents-only": "flag"}


class FindsNothing:
    """An engine to which every picture is harmless."""

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        return [Assessment(np.zeros(len(KEYS), dtype=np.float32)) for _ in views]


def shipped(name: str) -> bytes:
    return policy_bytes(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_that_no_engine_saw_is_not_released_without_a_word(name: str) -> None:
    hidden = {key: maker() for key, (maker, _) in HIDING.items()}
    shown = {key: maker() for key, maker in SHOWING.items()}
    samples = [Sample("s", i, key, None, content) for i, (key, content) in enumerate((hidden | shown).items())]
    rows = BatchScorer(FindsNothing(), ImageLimits(), num_threads=2).rows(samples)
    decided = {row["key"]: row for row in load_policy(shipped(name), name).decide(rows).to_pylist()}
    assert {key: (decided[key]["action"], decided[key]["rule"]) for key in hidden} == dict.fromkeys(
        hidden, (SHIPPED[name], "not-fully-scanned")
    )
    assert "content that was not scanned" in decided["app9.jpg"]["reason"]
    assert {key: decided[key]["action"] for key in shown} == dict.fromkeys(shown, "keep")


def decided_by(condition: str, *facts: Facts) -> list[str]:
    text = f'name: p\ndefault: keep\nrules:\n  - {{name: r, when: "{condition}", then: drop, reason: r}}\n'
    rows = to_table(facts, [Assessment(np.zeros(len(KEYS), dtype=np.float32))] * len(facts))
    return [row["action"] for row in load_policy(text.encode(), "p.yaml").decide(rows).to_pylist()]


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
    assert decided_by(condition, WHOLE, FRAMES) == actions


def test_filter_counts_kept_files_with_content_that_was_not_scanned_and_names_the_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three files hold a second picture behind the first: one is kept, one flagged, one may not be released."""
    (tmp_path / "crawl").mkdir()
    members = {f"{n}.jpg": jpeg(n) + (jpeg(n + 50) if n < 2 else b"") for n in range(5)}
    tar(tmp_path / "crawl" / "00000.tar", members)
    tar(tmp_path / "crawl" / "00001.tar", {"../7.jpg": jpeg(7) + jpeg(57)})
    scan_in_process(tmp_path / "crawl", tmp_path / "run")
    rules = "  - {name: second, when: \"key = '1'\", then: flag, reason: r}\n"
    (tmp_path / "p.yaml").write_text(f"name: p\ndefault: keep\nquarantined: drop\nrules:\n{rules}")
    args = ("filter", tmp_path / "run", "--policy", tmp_path / "p.yaml", "--out")
    assert privsieve(*args, tmp_path / "out", "--dry-run") == 0
    kinds = "(embedded_image {0}, trailing_data {0})"
    line = f"kept images hold content that was not scanned {kinds}; rule: len(unseen) > 0\n"
    assert f"3 {line.format(3)}" in capsys.readouterr().out  # names are looked at when shards are opened
    assert privsieve(*args, tmp_path / "out") == 0
    assert f"2 {line.format(2)}" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "release.json").read_text())
    assert (summary["num_unseen_kept"], summary["unseen_kept"]) == (2, {"embedded_image": 2, "trailing_data": 2})
    dropping = "  - {name: more, when: len(unseen) > 0, then: drop, reason: r}\n"
    (tmp_path / "p.yaml").write_text(f"name: p\ndefault: keep\nquarantined: drop\nrules:\n{rules}{dropping}")
    assert privsieve(*args, tmp_path / "half") == 0
    of_flagged = f"1 kept image holds content that was not scanned {kinds.format(1)}\n"
    assert of_flagged in capsys.readouterr().out  # an earlier rule flags it
    (tmp_path / "p.yaml").write_text(f"name: p\ndefault: keep\nquarantined: drop\nrules:\n{dropping}")
    assert privsieve(*args, tmp_path / "none") == 0
    assert "not scanned" not in capsys.readouterr().out
    summary = json.loads((tmp_path / "none" / "release.json").read_text())
    assert (summary["num_unseen_kept"], summary["unseen_kept"]) == (0, {})
