"""Policies: which rule decides, and the message for a wrong policy file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ingest.errors import Fault, PolicyError
from scoring.assessment import Assessment
from scoring.policies.policy_file import load_policy, policy_bytes
from scoring.policies.reserved import ReservedRule
from scoring.sql.limits import Limits
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import ATTRIBUTES, KEYS
from tests.making import Patch


def _row(**values: float) -> Assessment:
    return Assessment(np.array([values.get(key, 0.0) for key in KEYS], dtype=np.float32))


def _policy(*rules: str, rest: str = "default: keep") -> bytes:
    return "\n".join(["name: test", "rules:", *rules, rest]).encode()


DROP_FACES = "  - {name: faces, when: biometrics = 1, then: drop, reason: a face}"
FLAG_LEVEL_1 = "  - {name: level-1, when: level = 1, then: flag, reason: level one}"


def _table(*verdicts: Verdict) -> pa.Table:
    return to_table([Facts("s.tar", i, f"k{i}", None, 1, "00", unseen=()) for i in range(len(verdicts))], verdicts)


def _decide(policy: bytes, *verdicts: Verdict) -> list[tuple[str, str]]:
    rows = load_policy(policy, "test.yaml").decide(_table(*verdicts)).to_pylist()
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


def test_quarantined_images_are_dropped_by_default() -> None:
    bad = Fault("empty", "the file has no bytes")
    assert _decide(_policy(DROP_FACES), bad) == [("drop", "(quarantined)")]
    assert _decide(_policy(DROP_FACES, rest="default: keep\nquarantined: flag"), bad) == [("flag", "(quarantined)")]


def test_what_was_not_assessed_matches_no_condition() -> None:
    assert _decide(_policy(DROP_FACES), _row(biometrics=float("nan"))) == [("keep", "(default)")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_policy("  - {name: a, whn: level = 1, then: drop, reason: r}"), 'rule 1: unknown key "whn".*"when"'),
        (_policy("  - {name: a, when: levl = 1, then: drop, reason: r}"), 'when: no column "levl".*"level"'),
        (_policy("  - {name: a, when: level = , then: drop, reason: r}"), "syntax error"),
        (_policy("  - {name: a, when: score, then: drop, reason: r}"), "gives FLOAT, not true or false"),
        (_policy("  - {name: a, when: level = 1, then: dorp, reason: r}"), 'then: "dorp" is none of keep, .*"drop"'),
        (_policy("  - {name: a, when: level = 1, then: drop}"), "rule 1 reason is missing"),
        (_policy("  - {name: a, when: level = 1, when: b}"), 'the key "when" occurs twice, the second time at line 3'),
        (_policy(DROP_FACES, DROP_FACES), 'two rules have the name "faces"'),
        (
            _policy("  - {name: a, when: level IN (1, 2), then: drop, reason: r}"),
            r'"2\)"; if it is part of a text with a comma, put',
        ),
        (_policy(DROP_FACES, rest="defualt: keep"), 'unknown key "defualt".*"default"'),
        (_policy(DROP_FACES, rest="default: keep\nmembers: lsited"), '"lsited" is none of .*mean "listed"'),
        (_policy(DROP_FACES, rest="default: keep\nmembers: no"), "members is false: input should be 'listed'"),
        (_policy(DROP_FACES, rest="default: keep\nmembers:"), "members is null: input should be 'listed'"),
        (b"name: [", "not valid YAML at line"),
        (b"just text", "a policy needs the keys name, rules, default; see scoring/policies for examples"),
        (b"# only a comment\n", "a policy needs the keys name, rules, default"),
        (b"- name: a\n- name: b\n", "a policy needs the keys name, rules, default"),
        (b"{}", "name is missing"),
        (b"name: p\ndefault: keep\nrules:\n", "rules is null: input should be a valid list"),
        (b"name: p\ndefault: keep\nrules: {a: b}\n", "rules: input should be a valid list"),
        (_policy("  - drop everything"), "rule 1 needs the keys name, when, then, reason"),
        (_policy("  - {name: a, when: 1, then: drop, reason: r}"), "rule 1 when is 1: input should be a valid string"),
        (_policy("  - {name: a, when: ' ', then: drop, reason: r}"), "rule 1 when is empty"),
        (_policy("  - {name: yes, when: level = 1, then: drop, reason: r}"), "rule 1 name is true: input should be a"),
        (_policy(DROP_FACES, rest="default: no"), "default is false: input should be 'keep', 'flag' or 'drop'"),
        (_policy(DROP_FACES, rest="default: keep\n1: x"), 'unknown key "1"'),
        (_policy(DROP_FACES, rest="default: keep\n? [a, b]\n: x"), "not valid YAML at line 5"),
        (_policy(DROP_FACES, rest="default: 2024-13-45"), "not valid YAML"),
        (b"[" * 1500, "it has more than 50 lists and mappings inside each other"),
        (b"name: caf\xe9", "not valid YAML"),
        (b"\0", "not valid YAML"),
        (_policy('  - {name: a, when: "level = \\uDCFF", then: drop, reason: r}'), "rule 1 when: .* unicode string"),
        (_policy("  - {name: a, when: \"key = '\\0'\", then: drop, reason: r}"), "when: character 8 is not v"),
        *(
            (
                _policy(f'  - {{name: "{name}", when: level = 1, then: drop, reason: r}}'),
                r"are kept for \(default\), .*, \(guarantee\), .*\(hash_list\), .*, \(takedown\); ",
            )
            for name in ("(default)", "(quarantined)", "(unreadable)", "(unsafe_member)", "(guarantee)", " (mine) ")
        ),
    ],
)
def test_a_wrong_policy_names_the_rule_and_what_is_near(text: bytes, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        load_policy(text, "my/test.yaml")
    assert str(caught.value).startswith("my/test.yaml: ")
    assert "\n" not in str(caught.value)


def test_a_condition_that_fails_on_a_row_is_known_by_file_and_rule_without_the_row() -> None:
    rules = (
        DROP_FACES,
        "  - {name: quoted, when: try_cast(key AS INTEGER) = 1, then: flag, reason: r}",
        "  - {name: numbers, when: 'key::INTEGER > 3', then: flag, reason: r}",
        FLAG_LEVEL_1,
    )
    assert _decide(_policy(*rules), _row(biometrics=1)) == [("drop", "faces")]  # what is decided before is not asked
    with pytest.raises(PolicyError) as caught:
        _decide(_policy(*rules), _row(biometrics=1), _row())
    assert str(caught.value) == (
        'test.yaml: rule 3 "numbers", when: key::INTEGER > 3: a value cannot be converted as asked; '
        "TRY_CAST(… AS …) gives null instead"
    )


def test_a_condition_that_would_take_hours_is_stopped(monkeypatch: Patch) -> None:
    rules = _policy(
        "  - {name: slow, when: \"regexp_matches(key, '((a{1,30}){1,30}b)|((a?){30}a{30}c)')\", then: drop, reason: r}"
    )
    rows = to_table([Facts("s.tar", 0, "a" * 20_000, None, 1, "00")], [_row()])
    monkeypatch.setattr("scoring.policies.policy.LIMITS", Limits(seconds=0.2))
    with pytest.raises(PolicyError) as caught:
        load_policy(rules, "test.yaml").decide(rows)
    assert str(caught.value) == (
        "test.yaml: deciding on the images of one shard was stopped after 0.2 s; write simpler conditions, above all "
        "simpler regular expressions"
    )


def test_a_condition_that_fails_where_nothing_was_assessed_is_reported_too() -> None:
    when = "CAST(coalesce(CAST(emotion_mental_health AS VARCHAR), 'n/a') AS DOUBLE) >= 0.5"
    rules = _policy(f'  - {{name: moods, when: "{when}", then: drop, reason: r}}')
    assert load_policy(rules, "test.yaml").blind_rules(["emotion_mental_health"]) == {}
    assert _decide(rules, _row(emotion_mental_health=1)) == [("drop", "moods")]
    with pytest.raises(PolicyError) as caught:
        _decide(rules, _row(emotion_mental_health=float("nan")))
    assert str(caught.value) == (
        f'test.yaml: rule 1 "moods", when: {when}: a value cannot be converted as asked; '
        "TRY_CAST(… AS …) gives null instead"
    )


@pytest.mark.parametrize("condition", ["(" * 3000 + "level" + ")" * 3000 + " = 1", "level = " + "+".join(["1"] * 900)])
def test_of_an_enormous_condition_only_the_beginning_is_shown(condition: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(_policy(f"  - {{name: a, when: {condition}, then: drop, reason: r}}"), "test.yaml")
    message = str(caught.value)
    assert message.startswith('test.yaml: rule 1 "a", when: ')
    assert message.endswith(f"{condition[190:200]}… ({len(condition):,} characters)")
    assert len(message) < 320
    assert "SET" not in message


@pytest.mark.parametrize(
    "condition",
    [
        *("(SELECT true)", "exists(SELECT 1)", "read_text('/etc/hostname') = ''", "getenv('HOME') = ''"),
        *("1=1) FROM range(3) WHERE (true", "level = 1; DROP TABLE x", "count(*) > 0"),
        "current_setting('threads') = 1",
    ],
)
def test_a_condition_reaches_nothing_but_the_row(condition: str) -> None:
    rule = f'  - {{name: a, when: "{condition}", then: drop, reason: r}}'
    with pytest.raises(PolicyError, match='rule 1 "a", when'):
        load_policy(_policy(rule), "test.yaml")


@pytest.mark.parametrize("setting", ["listed", "image-only", "all"])
def test_what_goes_with_an_image_is_a_setting_and_text_and_json_by_default(setting: str) -> None:
    policy = load_policy(_policy(DROP_FACES, rest=f"default: keep\nmembers: {setting}"), "test.yaml")
    plain = load_policy(_policy(DROP_FACES), "test.yaml")
    assert (policy.members, plain.members) == (setting, "listed")
    assert policy.sha256 != plain.sha256


@pytest.mark.parametrize("name", ["strict", "identity-documents-only", "research"])
def test_the_shipped_policies_drop_identity_documents_and_say_what_goes_with_an_image(name: str) -> None:
    text = policy_bytes(name)
    assert b"\nmembers: listed\n" in text
    assert b"image-only" in text
    assert load_policy(text, f"{name}.yaml").name == name
    assert _decide(text, _row(gov_ids=1), _row(gov_ids=0.5), _row())[0][0] == "drop"
    assert [action for action, _ in _decide(text, _row(gov_ids=0.5), _row())] == ["drop", "keep"]


def test_strict_drops_nobody_for_an_unclear_cue_to_race_or_emotion_alone() -> None:
    """A person from behind: no attribute. Doubtful race or emotion: flagged. Clear, or with anything else: dropped."""
    rows = [
        _row(background_people=1),
        _row(race_ethnicity=0.5),
        _row(emotion_mental_health=0.5, age=0.5, gender=0.5),
        _row(race_ethnicity=1),
        _row(race_ethnicity=0.5, nudity=0.5),
        _row(race_ethnicity=0.5, biometrics=0.5),
        _row(age=0.5, gender=0.5),
    ]
    decided = _decide(policy_bytes("strict"), *rows)
    assert [action for action, _ in decided] == ["keep", "flag", "flag", "drop", "drop", "drop", "keep"]
    assert decided[1][1] == "doubtful-race-or-emotion"


@pytest.mark.parametrize("key", [a.key for a in ATTRIBUTES if a.level <= 2])
def test_every_other_doubtful_attribute_of_levels_1_and_2_is_dropped_by_strict(key: str) -> None:
    expected = "flag" if key in ("race_ethnicity", "emotion_mental_health") else "drop"
    assert _decide(policy_bytes("strict"), _row(**{key: 0.5}))[0][0] == expected
    assert _decide(policy_bytes("strict"), _row(**{key: 1}))[0][0] == "drop"
    flagged = "drop" if key == "gov_ids" else "flag"
    assert _decide(policy_bytes("research"), _row(**{key: 0.5}))[0][0] == flagged


def test_prices_alone_are_no_payment_data() -> None:
    assert _decide(policy_bytes("identity-documents-only"), _row(financial_data=0.5))[0][0] == "keep"


DETECTORS = {
    "protocol": "detectors-5",
    "assessed": ["biometrics", "gov_ids", "full_legal_name", "financial_data", "beliefs", "age", "documents"],
    "only_affirmed": ["beliefs", "age"],
}
"""As a run.json says it: beliefs and age are null in most images, all that is not named here in every one."""


def _judged(**values: float | None) -> Assessment:
    """As such an engine answers: 0 for what it rules out, null for the rest."""
    nulls = {key: np.nan for key in KEYS if key not in DETECTORS["assessed"] or key in DETECTORS["only_affirmed"]}
    return _row(**(nulls | {key: np.nan if value is None else value for key, value in values.items()}))


@pytest.mark.parametrize(
    ("name", "rule", "of_a_name"),
    [
        ("strict", "not-fully-judged", "flag"),
        ("research", "not-fully-judged", "flag"),
        ("identity-documents-only", "not-judged", "keep"),
    ],
)
def test_the_shipped_policies_flag_what_the_engine_could_not_judge(name: str, rule: str, of_a_name: str) -> None:
    policy = load_policy(policy_bytes(name), f"{name}.yaml")
    verdicts = [
        _judged(gov_ids=None, full_legal_name=None, documents=None),
        _judged(full_legal_name=None),
        _judged(gov_ids=1, full_legal_name=None),
        _judged(documents=None),
        _judged(),
    ]
    decided = policy.decide(_table(*verdicts), DETECTORS).to_pylist()
    assert [row["action"] for row in decided] == ["flag", of_a_name, "drop", "keep", "keep"]
    assert decided[0]["rule"] == rule
    assert "could not be judged" in decided[0]["reason"]
    assert "text in a script that is not read" in decided[0]["reason"]


def test_the_level_of_what_was_not_judged_is_the_most_severe_one() -> None:
    lines = [f"  - {{name: n{n}, when: unknown_level = {n}, then: flag, reason: r}}" for n in (1, 2, 3, 4)]
    policy = load_policy(_policy(*lines), "test.yaml")
    gaps = (("gov_ids", "age"), ("beliefs", "age"), ("age", "documents"), ("documents",), ())
    verdicts: list[Verdict] = [_row(**dict.fromkeys(keys, float("nan"))) for keys in gaps]
    verdicts.append(Fault("empty", "the file has no bytes"))
    decided = policy.decide(_table(*verdicts))["rule"].to_pylist()
    assert decided == ["n1", "n2", "n3", "n4", "(default)", "(quarantined)"]


@pytest.mark.parametrize(
    ("when", "is_blind"),
    [
        ("unique_body_markings >= 0.5", True),
        ("unique_body_markings >= 0.5 AND biometrics = 1", True),
        ("unique_body_markings = 1 OR NOT (unique_body_markings < disability)", True),
        ("unique_body_markings IN (0.5, 1)", True),
        ("unique_body_markings = 1 OR biometrics = 1", False),
        ("unique_body_markings IS NULL AND biometrics = 1", False),
        ("coalesce(unique_body_markings, biometrics) = 1", False),
        ("width < 10", False),
    ],
)
def test_a_rule_is_blind_if_it_matches_no_row_in_which_some_columns_are_null(when: str, is_blind: bool) -> None:
    policy = load_policy(_policy(f"  - {{name: a, when: '{when}', then: drop, reason: r}}"), "p.yaml")
    unanswered = ["unique_body_markings", "disability", "holistic_score"]
    assert list(policy.blind_rules(unanswered)) == (["a"] if is_blind else [])


def test_the_documentation_lists_the_rules_that_no_policy_has() -> None:
    table = "".join(f"| `{rule}` | {rule.meaning} |\n" for rule in ReservedRule)
    assert table in (Path(__file__).parent.parent.parent / "docs" / "filter.md").read_text()
