"""A taxonomy with one more attribute: one entry in scoring/taxonomy.yaml, and both older and new runs are read."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.auditing.made import filled, make_run, sample, truth, write
from tests.jobs.made import privsieve, shard

ROOT = Path(__file__).parent.parent.parent
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
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """privsieve with a 23rd attribute."""
    folder = tmp_path_factory.mktemp("tree")
    for room in ("ingest", "scoring", "reports", "jobs", "privsieve"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    taxonomy = folder / "scoring" / "taxonomy.yaml"
    text = taxonomy.read_text(encoding="utf-8").replace("version: cprt-1", "version: cprt-2")
    taxonomy.write_text(text.rstrip() + ENTRY, encoding="utf-8")
    return folder


def _run(tree: Path, *args: object, code: int = 0) -> str:
    """Run a command of the tree and return what it printed; an error is on stderr."""
    env = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "jobs", *map(str, args)]
    done = subprocess.run(command, env=env, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def _json(tree: Path, *args: object) -> Any:
    return json.loads(_run(tree, *args))


def test_an_older_run_and_its_audit_say_the_same_and_the_attribute_is_not_assessed(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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

    audit = _json(tree, "audit", "apply", run, labels, "--format", "json")
    assert [subject for subject in audit["subjects"] if subject["subject"] != "voice"] == before["audit"]["subjects"]
    report = _json(tree, "report", run, "--format", "json")
    voice = [attribute for attribute in report["prevalence"] if attribute["attribute"] == "voice"]
    assert [(attribute["num_present"], attribute["share"]) for attribute in voice] == [(0, None)]
    others = [attribute for attribute in report["prevalence"] if attribute["attribute"] != "voice"]
    assert others == before["report"]["prevalence"]
    assert report["rates"] == before["report"]["rates"]
    assert "Voice" in _run(tree, "report", run, "--html", tmp_path / "page.html") + (tmp_path / "page.html").read_text()
    assert _json(tree, "sql", run, "SELECT count(voice) AS n FROM images", "--format", "json") == [{"n": 0}]


def test_a_new_run_has_the_attribute_everywhere(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    shard(tmp_path / "corpus" / "0.tar", 0, 8)
    run, older = tmp_path / "run", tmp_path / "older"
    assert privsieve("scan", tmp_path / "corpus", "--run", older, "--engine", "canned") == 0
    scan = ("scan", tmp_path / "corpus", "--engine", "canned", "--executor", "inline", "--quiet", "--run")
    _run(tree, *scan, run)
    query = "SELECT count(voice) AS n, count(prob_voice) AS p, max(num_assessed) AS a FROM images"
    assert _json(tree, "sql", run, query, "--format", "json") == [{"n": 6, "p": 6, "a": 23}]
    assert "street" in _run(tree, "explain", run, "000000001")
    assert "8 rows of 1 shard in 1 file" in _run(tree, "compact", older)
    assert "8 dropped" in _run(tree, "filter", older, "--policy", STRICT, "--out", tmp_path / "out", "--dry-run")
    assert "voice" in _run(tree, "diff", older, run)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "name: p\nrules: [{name: voice, when: voice IS NOT NULL, then: drop, reason: r}]\ndefault: keep\n"
    )
    assert "6" in _run(tree, "filter", run, "--policy", policy, "--out", tmp_path / "out", "--dry-run")
    assert "voice. Present: the spectrogram" in _run(
        tree, "scan", tmp_path / "corpus", "--engine", "openai", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m",
        "--run", tmp_path / "asked", "--dry-run",
    )  # fmt: skip
    assert "taxonomy" in _run(tree, *scan, older, code=2)  # not continued with other weights
    done = subprocess.run([sys.executable, "-c", SCORE], cwd=tree, capture_output=True, text=True, check=True)
    assert done.stdout == "[360, 30, 5, 1] [1.0]\n"
