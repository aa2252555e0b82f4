"""What the shipped policies, and rules of one's own, do with runs of every protocol."""

from pathlib import Path

import numpy as np
import pytest

from ingest.errors import PolicyError
from jobs.releases.filtering import FilterRequest, plan_filter
from privsieve import open_run
from scoring.assessment import Assessment
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import made_run, privsieve
from tests.making import Capture
from tests.records import engine_record, write_result
from tests.test_one_private import ANSWERS, ATTRIBUTES, LEVEL_4_ONLY, SCORES, Made, made

__all__ = ["made"]  # the fixture: a run of each protocol, in which it is known of each picture whether it is private

REFUSED = (0, 0, 0, 0)
COUNTS = {
    frozenset(ATTRIBUTES): {
        "strict": (2, 3, 0, 6),
        "identity-documents-only": (9, 1, 0, 1),
        "research": (3, 7, 0, 1),
        "redacted": (2, 3, 4, 2),
    },
    frozenset(SCORES): {
        "strict": (1, 2, 0, 3),
        "identity-documents-only": REFUSED,
        "research": (2, 2, 0, 2),
        "redacted": (1, 2, 0, 3),
    },
    frozenset(ANSWERS): {
        "strict": (2, 1, 0, 2),
        "identity-documents-only": REFUSED,
        "research": (2, 1, 0, 2),
        "redacted": (2, 1, 0, 2),
    },
    frozenset(LEVEL_4_ONLY): dict.fromkeys(SHIPPED, REFUSED),
}
"""Pictures of a run -> policy -> how many it keeps, flags, covers and drops, a damaged one included."""


def test_shipped_policies_decide_for_every_protocol_and_keep_nothing_that_is_private_or_unknown(made: Made) -> None:
    for name, counts in COUNTS[frozenset(made.states)].items():
        with open_run(made.run) as run:
            policy = load_policy(policy_bytes(name), name)
            engine = run.record.engine
            protocol = engine["protocol"]
            rows = run.rows()
        if counts is REFUSED:
            with pytest.raises(PolicyError) as refused:
                plan_filter(FilterRequest(made.run, out="never", policy=name))
            assert f"(protocol {protocol}) answers nothing about " in str(refused.value)
            assert "; scan with a protocol that does (slots, json, two-pass)" in str(refused.value)
            continue
        plan = plan_filter(FilterRequest(made.run, out="never", policy=name)).plan
        assert plan.counts.actions() == dict(zip(("keep", "flag", "redact", "drop"), counts, strict=True)), name
        actions = {row["key"]: row["action"] for row in policy.decide(rows, engine).to_pylist()}
        kept = {key for key, state in made.states.items() if state is not False and actions[key] == "keep"}
        assert name == "identity-documents-only" or not kept, name


DETECTORS = engine_record(name="detectors", protocol="detectors-5", assessed=["biometrics", "gov_ids"])


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        (
            "private_answer = 1 -> drop",
            "private_answer; scan with a protocol that does (binary), write it with private",
        ),
        ("disability >= 0.5 -> redact", "disability; scan with a protocol that does (slots, json, two-pass), or leave"),
        ("prob_disability > 0.3 -> drop", "prob_disability; scan with a protocol that does (slots, json), or leave"),
        ("holistic_score > 0 AND level = 1 -> drop", "holistic_score;"),
        ("prob_biometrics > 0.3 -> drop | biometrics = 1 -> flag", "prob_biometrics;"),
        ("prob_biometrics > 0.3 -> drop | biometrics = 1 -> drop", None),
        ("private_answer = 1 -> drop | private = 1 -> drop", None),
        ("private_answer = 1 OR level = 1 -> drop", None),
        ("private_answer = 0 -> keep", None),
        ("disability IS NULL -> flag", None),
    ],
)
def test_a_rule_that_can_never_match_stops_filter_unless_another_decides_for_the_same_pictures(
    rules: str, refused: str | None, tmp_path: Path, capsys: Capture
) -> None:
    run = made_run(tmp_path, ((),), engine=DETECTORS)
    values = np.array([1.0 if key == "biometrics" else 0.0 if key == "gov_ids" else np.nan for key in KEYS], np.float32)
    rows = to_table([Facts("00000.tar", 0, "a", None, 9, f"{0:064x}", unseen=())], [Assessment(values)])
    write_result(run, "00000.tar", 0, True, rows)
    lines = ["name: p", "default: keep", "rules:"]
    for number, (when, then) in enumerate(rule.split(" -> ") for rule in rules.split(" | ")):
        cover = ", cover: [faces]" if then == "redact" else ""
        lines.append(f"  - {{name: r{number}, when: {when}, then: {then}, reason: r{cover}}}")
    (tmp_path / "p.yaml").write_text("\n".join(lines))
    code = privsieve("filter", run, "--policy", tmp_path / "p.yaml", "--out", tmp_path / "out", "--dry-run")
    said = capsys.readouterr()
    if refused is None:
        assert code == 0
        assert "of 1 image" in said.out
    else:
        assert code == 2
        assert 'p.yaml: rule "r0" can match no image of this run: the detectors engine' in said.err
        assert f" answers nothing about {refused}" in said.err
        assert said.err.count("\n") == 1
