"""Options from a file and from variables, `--help`, what a shell completes, and wrong sources."""

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from jobs.cli import cli
from tests.jobs.made import jpeg, privsieve, rows
from tests.making import Capture, Patch


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    return folder


def test_the_command_line_wins_then_variables_then_the_file(pictures: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    run, config = tmp_path / "run", tmp_path / "run.yaml"
    config.write_text(f"source: {pictures}\nrun: {run}\nengine: caned\nlimit: 1\nquiet: true\nmax-frames: 2\n")
    monkeypatch.setenv("PRIVSIEVE_SCAN_ENGINE", "canned")
    monkeypatch.setenv("PRIVSIEVE_SCAN_LIMIT", "3")
    monkeypatch.setenv("PRIVSIEVE_TUNE_SET_OUT", "of another command")
    assert privsieve("scan", "--config", config, "--limit", 2, "--executor", "inline") == 0
    assert len(rows(run)) == 2
    assert '"name":"canned"' in (run / "run.json").read_text().replace(" ", "")
    assert '"max_frames":2' in (run / "run.json").read_text().replace(" ", "")


def test_a_misspelt_variable_is_refused(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("PRIVSIEVE_LABELS_AGREEMENT_FORMATT", "json")
    assert privsieve("labels", "agreement", "a") == 2
    assert capsys.readouterr().err == (
        "privsieve: the variable PRIVSIEVE_LABELS_AGREEMENT_FORMATT is no option of labels agreement (did you mean "
        '"PRIVSIEVE_LABELS_AGREEMENT_FORMAT"?)\n'
    )


def test_a_shell_completes_verbs_engines_and_policies() -> None:
    def completed(*words: str) -> list[str]:
        shell = BashComplete(cli, {}, "privsieve", "_PRIVSIEVE_COMPLETE")
        return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]

    assert completed("sc") == ["screen", "scan"]
    assert completed("scan", "x", "--engine", "t") == ["transformers"]
    assert completed("filter", "r", "--policy", "s") == ["strict"]


@pytest.mark.slow
def test_one_picture_can_be_the_source(pictures: Path, tmp_path: Path) -> None:
    (pictures / "1.txt").write_text("beside it")
    assert privsieve("scan", pictures / "1.jpg", "--run", tmp_path / "run", "--engine", "canned") == 0
    assert [(row["shard"], row["key"], row["category"]) for row in rows(tmp_path / "run")] == [("1.jpg", "1.jpg", None)]
    assert privsieve("filter", tmp_path / "run", "--policy", "research", "--out", tmp_path / "release") == 0
    released = {path.name for path in (tmp_path / "release").rglob("*") if path.suffix in (".jpg", ".txt")}
    assert released <= {"1.jpg", "1.txt"}
