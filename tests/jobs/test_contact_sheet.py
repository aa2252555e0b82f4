"""`verify --contact-sheet`: what a policy covered, before and after, and never inside of the release."""

import io
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.jobs.releases import make_corpus, with_policy
from tests.making import Capture

POLICY = """name: hide
default: keep
rules:
  - {name: first, when: "index = 0", then: drop, reason: r}
  - {name: rest, when: "status = 'scored'", then: redact, cover: [image], reason: shows a person}
"""


def shown(page: Path, side: str) -> list[npt.NDArray[np.uint8]]:
    """Pictures on one side of the pairs."""
    texts = re.findall(f'<img class="{side}"[^>]*base64,([^"]+)"', page.read_text())
    return [np.asarray(Image.open(io.BytesIO(b64decode(text)))) for text in texts]


@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_every_layout_gives_the_same_pictures_before_and_after(layout: str, tmp_path: Path, capsys: Capture) -> None:
    source, out, sheet = make_corpus(tmp_path, layout), tmp_path / "out", tmp_path / "sheet.html"
    scan_in_process(source, tmp_path / "run", max_frames=16)
    assert privsieve("filter", tmp_path / "run", "--policy", with_policy(tmp_path, POLICY), "--out", out) == 0
    assert privsieve("release", "verify", out, "--contact-sheet", sheet) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"2 covered pictures before and after: {sheet}; it shows private pictures uncovered, so keep it as you keep "
        "the source"
    )
    assert [picture.max() for picture in shown(sheet, "before")] == [255, 255]
    assert [picture.max() for picture in shown(sheet, "after")] == [1, 1]
    assert privsieve("release", "verify", out, "--contact-sheet", sheet, "--per-rule", 1) == 0
    drawn = sheet.read_text()
    assert "1 of 2 covered pictures shown. Cleared by the step image: 2." in drawn
    assert privsieve("release", "verify", out, "--contact-sheet", sheet, "--per-rule", 1) == 0
    assert sheet.read_text() == drawn
