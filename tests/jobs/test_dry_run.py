"""`scan --dry-run`: what would be asked and what it costs, without weights, Ray, requests or a single file written."""

from pathlib import Path

from scoring.engines.detectors import PROTOCOL
from scoring.engines.detectors.findings import ASSESSED
from tests.jobs.made import privsieve
from tests.making import Capture


def dry_run(corpus: Path, *arguments: object) -> int:
    """Into a run that must not come to be."""
    run = corpus.parent / "never"
    code = privsieve("scan", corpus, "--run", run, "--dry-run", *arguments)
    assert not run.exists()
    return code


def test_engines_that_are_not_asked_in_words(corpus: Path, capsys: Capture) -> None:
    assert dry_run(corpus, "--engine", "detectors") == 0
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert shown["protocol"] == f"protocol   {PROTOCOL}"
    assert shown["assesses"].startswith(f"assesses   {len(ASSESSED)} of the 22 attributes, not: ")
    assert "lifestyle" in shown["assesses"]
    assert shown["prompt"] == "prompt     none: this engine takes no prompt"
    assert dry_run(corpus, "--engine", "canned") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(": 64x48, seen at 64x48")
