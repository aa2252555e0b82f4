"""`privsieve evaluate` begins with its finding, and shows the wrong answers, the surest first."""

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
from PIL import Image

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, REJECTED, MakeRun, answered, by_hash, make_run

__all__ = ["make_run"]  # the fixture


def test_the_first_sentences_are_the_finding(make_run: MakeRun, tmp_path: Path, capsys: Capture) -> None:
    answers = [answered(n != 3, 0.9) for n in range(4)] + [answered(False, 0.1)] * 4 + [REJECTED]
    names = "abcdefghi"
    run = make_run(list(zip(names, answers, strict=True)), BINARY)
    worse = make_run([(name, answered(n % 2 == 0, 0.7)) for n, name in enumerate(names)], BINARY, name="before")
    labels = tmp_path / "labels.parquet"
    write_labels(by_hash(names, private=[1] * 4 + [0] * 5), str(labels), LabelsOrigin("hand"))
    assert privsieve("evaluate", run, "--labels", labels, "--compare", worse) == 0
    shown = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert shown[0] == "Of 4 private pictures the run finds 3 (75 %; 95 % interval 19 – 99 %)."
    assert shown[1] == "Of 5 public pictures it calls 4 public (80 %; 95 % interval 28 – 99 %)."
    assert shown[2] == "1 picture without an answer is counted as wrong."
    assert re.fullmatch(
        rf"It is better than {worse}, which may be chance: MCC −0.100 before, 0.550 now, on .*", shown[3]
    )


def test_errors_are_named_the_surest_first_and_never_a_listed_one(
    make_run: MakeRun, tmp_path: Path, capsys: Capture
) -> None:
    answers = [answered(True, 0.6), answered(True, 0.99), answered(False, 0.3), answered(True, 0.8), REJECTED]
    run = make_run(list(zip(["a", "b", "c", "d", "e"], answers, strict=True)), BINARY)
    labels = tmp_path / "labels.parquet"
    write_labels(by_hash("abcde", private=[0, 0, 1, 1, 1]), str(labels), LabelsOrigin("hand"))
    asked = ("evaluate", run, "--labels", labels, "--errors", 9, "--format", "json")
    assert privsieve(*asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["key"], one["is_private"], round(one["confidence"], 2)) for one in found["errors"]] == [
        ("b.jpg", False, 0.99),
        ("c.jpg", True, 0.7),
        ("a.jpg", False, 0.6),
    ]
    hashes = tmp_path / "hashes.txt"
    hashes.write_text(f"sha256 {rows(run)[1]['sha256']}\n")
    assert privsieve(*asked, "--hash-list", hashes) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["key"] for one in found["errors"]] == ["c.jpg", "a.jpg"]
    assert found["errors_note"] == "left out: 1 picture on the hash list"


def test_the_page_holds_each_error_once_and_blurred_without_a_script(tmp_path: Path, capsys: Capture) -> None:
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    corpus.mkdir()
    tar(corpus / "0.tar", {f"{n}.jpg": jpeg(n) for n in range(12)})
    scan_in_process(corpus, run)
    scored = [row for row in rows(run) if row["private_answer"] is not None or row["level"] is not None]
    says_private = {str(row["key"]): row["level"] in (1, 2) for row in scored}
    columns: dict[str, list[object]] = {
        "key": list(says_private),
        "annotator": ["me"] * len(scored),
        "private": [int(not v) for v in says_private.values()],
    }
    labels = tmp_path / "labels.parquet"
    write_labels(to_labels(columns, len(scored)), str(labels), LabelsOrigin("hand"))
    page = tmp_path / "page.html"
    assert privsieve("evaluate", run, "--labels", labels, "--errors", 3, "--html", page) == 0
    html = page.read_text()
    assert "<script" not in html
    assert "filter: blur(16px)" in html
    pictures = re.findall(r"data:image/jpeg;base64,([^\"]+)", html)
    assert len(pictures) == 3
    for picture in pictures:
        assert np.asarray(Image.open(io.BytesIO(base64.b64decode(picture)))).shape[2] == 3
    tar(corpus / "0.tar", {f"{n}.jpg": jpeg(50 + n) for n in range(12)})
    page.unlink()
    capsys.readouterr()
    assert privsieve("evaluate", run, "--labels", labels, "--errors", 3, "--html", page) == 0
    assert "3 of 3 pictures are left out" in capsys.readouterr().err
    assert "data:image/jpeg" not in page.read_text()
