"""`privsieve explain`: one image in words, and which rule of a policy decides."""

import json
from pathlib import Path

import pytest

from ingest.errors import Fault
from tests.jobs.made import privsieve
from tests.reports.conftest import MakeRun, answer

ROWS = [
    ("beach", answer(biometrics=1, age=0.5, beliefs=None)),
    ("beach", answer(documents=1)),
    ("beach", Fault("truncated", "the file ends early")),
    ("office", answer(nudity=1)),
    ("office", answer()),
    ("office", answer()),
]
"""Three images of each of two shards, with the same keys."""


def test_the_row_is_reported_in_words_with_the_rule_that_decides(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("explain", make_run(ROWS), "0.tar/secret-key-0") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[:9] if line)
    assert lines["where"] == "shard 0.tar, index 0"
    assert lines["counted"] == "private; private is: an attribute of level 1 or 2 is present"
    assert lines["level"].startswith("1 unique identifiers, severity score 0.711")
    assert lines["shows"] == "Biometrics"
    assert lines["doubtful"] == "Age"
    assert "policy strict: drop, by the rule identifies-a-person\n" in out
    assert "when level_high = 1; here level_high = 1\n" in out
    assert "policy research: flag, by the rule private\n" in out
    assert "policy identity-documents-only: keep, by the rule (default)\n" in out


def test_a_quarantined_image_says_why_and_is_dropped(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(ROWS)
    assert privsieve("explain", folder, "0.tar/secret-key-2", "--policy", "strict", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["reason"]) == ("quarantined", "truncated: the file ends early")
    assert (found["level"], found["present"], found["not_judged"]) == (None, [], [])
    assert [(one["policy"], one["action"], one["rule"]) for one in found["decisions"]] == [
        ("strict", "drop", "(quarantined)")
    ]


def test_several_images_with_a_key_are_one_line_that_says_how_to_name_one(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("explain", make_run(ROWS), "secret-key-1") == 2
    assert capsys.readouterr().err == (
        'privsieve: several images have the name "secret-key-1"; give SHARD/KEY or SHARD#INDEX, which sql lists: '
        'SELECT shard, key, "index" FROM images\n'
    )


@pytest.mark.slow
def test_an_image_is_named_by_its_shard_and_key_or_its_place(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(ROWS)
    for name in ("1.tar/secret-key-1", "1.tar#1"):
        assert privsieve("explain", folder, name, "--format", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["shard"], found["index"], found["key"]) == ("1.tar", 1, "secret-key-1")
    for name in ("2.tar/secret-key-1", "1.tar#9", "1.tar/secret-key-1#1"):
        assert privsieve("explain", folder, name) == 2
        assert "give its key, SHARD/KEY, SHARD#INDEX or sha256" in capsys.readouterr().err


def test_a_policy_of_the_user_is_applied(make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "mine.yaml"
    rule = "{name: naked, when: nudity >= 0.5 AND category = 'office', then: flag, reason: look first}"
    policy.write_text(f"name: mine\ndefault: keep\nrules:\n  - {rule}\n")
    folder = make_run(ROWS)
    assert privsieve("explain", folder, "1.tar/secret-key-0", "--policy", policy) == 0
    out = capsys.readouterr().out
    assert "policy mine: flag, by the rule naked\n             look first\n" in out
    assert "when nudity >= 0.5 AND category = 'office'; here category = office, nudity = 1\n" in out
