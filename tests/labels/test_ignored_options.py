"""An option that changes nothing is refused: who gave it expects that it does."""

import shutil
from pathlib import Path

from scoring.labels.label_files import as_csv
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, MakeRun, answered, by_hash, make_run

__all__ = ["make_run"]  # the fixture


def test_options_of_labels_that_would_change_nothing_are_refused_in_one_line(
    make_run: MakeRun, tmp_path: Path, capsys: Capture
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(as_csv(by_hash("ab", private=[0, 1])))  # by the annotator "me"
    run = make_run([("a", answered(True, 0.9)), ("b", answered(False, 0.2))], BINARY)
    other = shutil.copytree(run, tmp_path / "other")
    out = ("--out", tmp_path / "out.csv")
    for command, message in (
        (("import", "csv", labels, *out, "--mapping", "vispr"), "--mapping changes nothing: csv has no labels of its"),
        (("import", "csv", labels, *out, "--annotator", "her"), "--annotator changes nothing: every label names its"),
        (("consensus", run, other, *out, "--min-posterior", 0.5), "--min-posterior is for the method dawid-skene"),
        (("agreement", run, other, "--min-attention", 0.75), "--min-attention is of --attention-checks"),
        (("export", labels, *out, "--format", "csv", "--image-prefix", "x"), "--image-prefix is for --format label-st"),
    ):
        assert privsieve("labels", *command) == 2
        said = capsys.readouterr()
        assert said.err.startswith(f"privsieve: {message}"), said.err
        assert said.err.count("\n") == 1
        assert said.out == ""
    assert not (tmp_path / "out.csv").exists()
    assert privsieve("labels", "consensus", run, other, *out, "--min-posterior", 0.9, "--method", "dawid-skene") == 0
