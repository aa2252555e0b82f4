"""A taxonomy with one more attribute: one entry in scoring/taxonomy.yaml, and both older and new runs are read."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auditing.made import filled, make_run, sample, truth, write
from tests.jobs.made import privsieve, shard
from tests.older_runs.changed_tree import ROOT, ChangedTree, changed_tree

ENTRY = """
  voice:
    level: 2
    title: Voice
    shows: a voice print
    question: "Present: the spectrogram of somebody's voice."
    since: cprt-2
"""
SCORE = """
import numpy as np
from scoring import severity
from scoring.taxonomy import TAXONOMY
everything = np.array([TAXONOMY.level_sizes])
print(severity.WEIGHTS.tolist(), severity.score_of(severity.lexicographic(everything)).tolist())
"""
STRICT = ROOT / "scoring/policies/strict.yaml"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangedTree]:
    """privsieve with a 23rd attribute."""

    def change(folder: Path) -> None:
        taxonomy = folder / "scoring" / "taxonomy.yaml"
        text = taxonomy.read_text(encoding="utf-8").replace("version: cprt-1", "version: cprt-2")
        taxonomy.write_text(text.rstrip() + ENTRY, encoding="utf-8")

    with changed_tree(tmp_path_factory.mktemp("tree"), change) as changed:
        yield changed


def test_an_older_run_and_its_audit_say_the_same_and_the_attribute_is_not_assessed(
    tree: ChangedTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, is_there = make_run(tmp_path), truth()
    sample(run, tmp_path / "list.csv", "--n", 300)
    columns = {"private": is_there, "biometrics": is_there}
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", columns))
    before = dict[str, Any]()
    for command in (("audit", "apply", run, labels, "--format", "json"), ("report", run, "--format", "json")):
        capsys.readouterr()
        assert privsieve(*command) == 0
        before[command[0]] = json.loads(capsys.readouterr().out)

    audit = tree.json("audit", "apply", run, labels)
    assert [subject for subject in audit["subjects"] if subject["subject"] != "voice"] == before["audit"]["subjects"]
    report = tree.json("report", run)
    voice = [attribute for attribute in report["prevalence"] if attribute["attribute"] == "voice"]
    assert [(attribute["num_present"], attribute["share"]) for attribute in voice] == [(0, None)]
    others = [attribute for attribute in report["prevalence"] if attribute["attribute"] != "voice"]
    assert others == before["report"]["prevalence"]
    assert report["rates"] == before["report"]["rates"]
    assert "Voice" in tree.run("report", run, "--html", tmp_path / "page.html") + (tmp_path / "page.html").read_text()
    assert tree.json("sql", run, "SELECT count(voice) AS n FROM images") == [{"n": 0}]


def test_a_new_run_has_the_attribute_everywhere(tree: ChangedTree, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    shard(tmp_path / "corpus" / "0.tar", 0, 8)
    run, older = tmp_path / "run", tmp_path / "older"
    assert privsieve("scan", tmp_path / "corpus", "--run", older, "--engine", "canned") == 0
    scan = ("scan", tmp_path / "corpus", "--engine", "canned", "--executor", "inline", "--quiet", "--run")
    tree.run(*scan, run)
    query = "SELECT count(voice) AS n, count(prob_voice) AS p, max(num_assessed) AS a FROM images"
    assert tree.json("sql", run, query) == [{"n": 6, "p": 6, "a": 23}]
    assert "street" in tree.run("explain", run, "000000001")
    assert "8 rows of 1 shard in 1 file" in tree.run("compact", older)
    assert "8 dropped" in tree.run("filter", older, "--policy", STRICT, "--out", tmp_path / "out", "--dry-run")
    assert "voice" in tree.run("diff", older, run)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "name: p\nrules: [{name: voice, when: voice IS NOT NULL, then: drop, reason: r}]\ndefault: keep\n"
    )
    assert "6" in tree.run("filter", run, "--policy", policy, "--out", tmp_path / "out", "--dry-run")
    assert "voice. Present: the spectrogram" in tree.run(
        "scan", tmp_path / "corpus", "--engine", "openai", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m",
        "--run", tmp_path / "asked", "--dry-run",
    )  # fmt: skip
    assert "taxonomy" in tree.run(*scan, older, code=2)  # not continued with other weights
    done = subprocess.run([sys.executable, "-c", SCORE], cwd=tree.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "[360, 30, 5, 1] [1.0]\n"
