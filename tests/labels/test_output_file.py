"""A file that is there already is never replaced: somebody may have worked on it."""

import shutil
from pathlib import Path

from scoring.labels.label_files import as_csv
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, MakeRun, answered, by_hash, make_run

__all__ = ["make_run"]  # the fixture


def test_no_command_replaces_the_file_that_out_names(make_run: MakeRun, tmp_path: Path, capsys: Capture) -> None:
    labels, edited = tmp_path / "labels.csv", b"corrected by hand"
    labels.write_bytes(as_csv(by_hash("ab", private=[0, 1])))
    run = make_run([("a", answered(True, 0.9)), ("b", answered(False, 0.2))], BINARY)
    other = shutil.copytree(run, tmp_path / "other")
    for command, name in (
        (("labels", "import", "csv", labels), "there.parquet"),
        (("labels", "consensus", run, other), "there.csv"),
        (("labels", "export", labels, "--format", "csv"), "there.csv"),
        (("labels", "export", labels, "--format", "label-studio"), "there.json"),
        (("labels", "export", labels, "--format", "label-studio"), "there.xml"),
        (("calibrate", run, "--labels", labels), "there.yaml"),
        (("audit", "sample", run), "there.csv"),
        (("audit", "sample", run), "there.xml"),
    ):
        there = tmp_path / name
        there.write_bytes(edited)
        out = there.with_suffix(".json") if name == "there.xml" else there
        assert privsieve(*command, "--out", out) == 2
        said = capsys.readouterr()
        assert said.err == f"privsieve: {there} already exists; name another --out, or remove it\n"
        assert said.out == ""
        assert there.read_bytes() == edited
        there.unlink()
        assert not out.exists()
    assert not (run / "audit").exists()
