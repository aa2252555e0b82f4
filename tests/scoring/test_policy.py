"""Policies: which rule decides, and what a wrong policy file is told."""

from importlib.resources import files

import numpy as np
import pytest

from ingest.errors import PolicyError
from scoring.assessment import Assessment
from scoring.policy import load_policy
from scoring.table import Facts, Quarantined, Verdict, to_table
from scoring.taxonomy import KEYS


def _row(**values: float) -> Assessment:
    return Assessment(np.array([values.get(key, 0.0) for key in KEYS], dtype=np.float32))


def _policy(*rules: str, rest: str = "default: keep") -> bytes:
    return "\n".join(["name: test", "rules:", *rules, rest]).encode()


DROP_FACES = "  - {name: faces, when: biometrics = 1, then: drop, reason: a face}"
FLAG_LEVEL_1 = "  - {name: level-1, when: level = 1, then: flag, reason: level one}"


def _decide(policy: bytes, *verdicts: Verdict) -> list[tuple[str, str]]:
    facts = [Facts("s.tar", i, f"k{i}", None, 1, "00") for i in range(len(verdicts))]
    rows = load_policy(policy).decide(to_table(facts, verdicts)).to_pylist()
    assert [r["index"] for r in rows] == list(range(len(verdicts)))
    return [(r["action"], r["rule"]) for r in rows]


def test_the_first_rule_that_matches_decides() -> None:
    face, ids = _row(biometrics=1), _row(gov_ids=1)
    assert _decide(_policy(DROP_FACES, FLAG_LEVEL_1), face, ids, _row()) == [
        ("drop", "faces"),
        ("flag", "level-1"),
        ("keep", "(default)"),
    ]
    assert _decide(_policy(FLAG_LEVEL_1, DROP_FACES), face) == [("flag", "level-1")]


def test_quarantined_images_are_dropped_unless_said_otherwise() -> None:
    bad = Quarantined("empty", "the file has no bytes")
    assert _decide(_policy(DROP_FACES), bad) == [("drop", "(quarantined)")]
    assert _decide(_policy(DROP_FACES, rest="default: keep\nquarantined: flag"), bad) == [("flag", "(quarantined)")]


def test_what_was_not_assessed_matches_no_condition() -> None:
    assert _decide(_policy(DROP_FACES), _row(biometrics=float("nan"))) == [("keep", "(default)")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_policy("  - {name: a, whn: level = 1, then: drop, reason: r}"), 'rule 1: unknown key "whn".*"when"'),
        (
            _policy("  - {name: a, when: levl = 1, then: drop, reason: r}"),
            'rule 1 "a", when: no column "levl".*"level"',
        ),
        (_policy("  - {name: a, when: level = , then: drop, reason: r}"), "syntax error"),
        (_policy("  - {name: a, when: score, then: drop, reason: r}"), "gives FLOAT, not true or false"),
        (_policy("  - {name: a, when: level = 1, then: dorp, reason: r}"), '"dorp" is no action.*"drop"'),
        (_policy("  - {name: a, when: level = 1, then: drop}"), "rule 1 reason: field required"),
        (_policy(DROP_FACES, DROP_FACES), 'two rules have the name "faces"'),
        (_policy(DROP_FACES, rest="defualt: keep"), 'unknown key "defualt"|default: field required'),
        (b"name: [", "not valid YAML at line"),
        (b"just text", "the policy"),
    ],
)
def test_a_wrong_policy_names_the_rule_and_what_is_near(text: bytes, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        load_policy(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "(SELECT true)",
        "exists(SELECT 1)",
        "read_text('/etc/hostname') = ''",
        "getenv('HOME') = ''",
        "1=1) FROM range(3) WHERE (true",
        "level = 1; DROP TABLE x",
        "count(*) > 0",
        "current_setting('threads') = 1",
    ],
)
def test_a_condition_reaches_nothing_but_the_row(condition: str) -> None:
    rule = f'  - {{name: a, when: "{condition}", then: drop, reason: r}}'
    with pytest.raises(PolicyError, match='rule 1 "a", when'):
        load_policy(_policy(rule))


@pytest.mark.parametrize("name", ["strict", "identity-documents-only", "research"])
def test_the_shipped_policies_load_and_drop_identity_documents(name: str) -> None:
    text = files("jobs").joinpath("policies", f"{name}.yaml").read_bytes()
    assert load_policy(text).name == name
    assert _decide(text, _row(gov_ids=1), _row(gov_ids=0.5), _row())[0][0] == "drop"
    assert [action for action, _ in _decide(text, _row(gov_ids=0.5), _row())] == ["drop", "keep"]


def test_rules_that_look_only_at_what_was_not_assessed_are_told() -> None:
    rules = [
        ("tattoos", "unique_body_markings >= 0.5"),
        ("levels", "level <= 2"),
        ("unseen", "unique_body_markings IS NULL"),
        ("either", "unique_body_markings = 1 OR biometrics = 1"),
        ("small", "width < 10"),
    ]
    lines = [f"  - {{name: {name}, when: {when}, then: drop, reason: r}}" for name, when in rules]
    policy = load_policy("\n".join(["name: p", "default: keep", "rules:", *lines]).encode())
    assert policy.blind_rules(["biometrics"]) == {"tattoos": ["unique_body_markings"]}
    assert policy.blind_rules([]) == {
        "tattoos": ["unique_body_markings"],
        "levels": ["level"],
        "either": ["biometrics", "unique_body_markings"],
    }


def test_a_key_that_stands_twice_is_refused() -> None:
    text = "name: p\ndefault: keep\nrules:\n  - {name: a, when: level = 1, when: level = 2, then: drop, reason: r}\n"
    with pytest.raises(PolicyError, match='the key "when" stands twice, the second time at line 4'):
        load_policy(text.encode())
