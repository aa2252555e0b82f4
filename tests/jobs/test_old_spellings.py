"""Options that were renamed are still accepted by their old names."""

from pathlib import Path

import pytest

from tests.jobs.made import privsieve

Capture = pytest.CaptureFixture[str]
GOES = "the old name will be refused in a later version"


@pytest.mark.parametrize("written", [("--format", "webdataset"), ("--format=webdataset",)])
def test_the_source_format_of_scan(corpus: Path, tmp_path: Path, capsys: Capture, written: tuple[str, ...]) -> None:
    assert privsieve("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--quiet", *written) == 0
    assert capsys.readouterr().err == f"--format is called --source-format now; {GOES}\n"


def test_an_option_that_was_removed_says_why(tmp_path: Path, capsys: Capture) -> None:
    assert privsieve("scan", tmp_path, "--run", tmp_path / "run", "--keep-rationale") == 2
    assert (
        "--keep-rationale was removed: a model's own words can repeat what a picture shows" in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()
