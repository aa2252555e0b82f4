"""`scan --dry-run`: what would be asked and what it costs, without weights, Ray, requests or a single file written."""

import subprocess
import sys
from pathlib import Path

import pytest

from scoring.engines.detectors import PROTOCOL
from scoring.engines.detectors.findings import ASSESSED
from tests.jobs.made import privsieve
from tests.making import Capture

OPENAI = ("--engine", "openai", "--endpoint", "http://127.0.0.1:9/v1", "--model", "some-model")


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


@pytest.mark.slow
def test_nothing_heavy_is_loaded(corpus: Path) -> None:
    """In a process of its own: Ray and torch are in none of the files that a dry run needs."""
    code = (
        "import sys\n"
        "from jobs.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as done:\n    assert done.code == 0\n"
        "print('loaded:', [n for n in ('ray', 'torch', 'onnxruntime') if n in sys.modules])\n"
    )
    arguments = ["scan", str(corpus), "--run", str(corpus.parent / "never"), "--dry-run", *OPENAI]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"
