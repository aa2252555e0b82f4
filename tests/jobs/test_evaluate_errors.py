"""`privsieve evaluate` begins with its finding, and shows the wrong answers, the surest first."""

import base64
import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.making import Capture
from tests.reports.evaluation.conftest import make_run

__all__ = ["make_run"]  # the fixture


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
