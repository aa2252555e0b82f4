"""`scan --dry-run`: what would be asked and what it costs, without weights, Ray, requests or a single file written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.engines.detectors import PROTOCOL
from scoring.engines.detectors.findings import ASSESSED
from scoring.engines.vlm.settings import visual_tokens
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


# What the image processor of transformers 5.16 makes of pictures with patches of 16 px, merged by two.
PROCESSED = [
    (25_600, (184, 138), 24),
    (25_600, (20, 12), 2),
    (25_600, (160, 160), 25),
    (25_600, (41, 619), 19),
    (25_600, (33, 31), 1),
    (25_600, (1847, 13), 12),
    (262_144, (591, 443), 252),
    (262_144, (512, 512), 256),
    (262_144, (580, 451), 252),
    (262_144, (100, 1500), 141),
    (262_144, (4000, 30), 125),
]


@pytest.mark.parametrize(("max_pixels", "size", "number"), PROCESSED)
def test_visual_tokens_are_those_of_the_real_processor(
    tmp_path: Path, max_pixels: int, size: tuple[int, int], number: int
) -> None:
    options = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 1024, "longest_edge": 16777216}}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": options}))
    assert visual_tokens(tmp_path, *size, max_pixels) == number
    older = {"patch_size": 16, "merge_size": 2, "min_pixels": 1024, "max_pixels": 16777216}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(older))
    assert visual_tokens(tmp_path, *size, max_pixels) == number


def test_visual_tokens_of_other_families_are_not_guessed(tmp_path: Path) -> None:
    assert visual_tokens(tmp_path, 10, 10, 1000) is None
    (tmp_path / "preprocessor_config.json").write_text('{"size": {"height": 448, "width": 448}}')
    assert visual_tokens(tmp_path, 10, 10, 1000) is None
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(EngineError, match=r"its preprocessor_config\.json is not valid JSON"):
        visual_tokens(tmp_path, 10, 10, 1000)
