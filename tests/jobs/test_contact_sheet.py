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
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import FIRST_DROPPED, make_corpus, with_policy
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


def test_a_sheet_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    source, out, bare, sheet = (
        make_corpus(tmp_path, "tars"),
        tmp_path / "out",
        tmp_path / "bare",
        tmp_path / "sheet.html",
    )
    scan_in_process(source, tmp_path / "run", max_frames=16)
    for policy, to in ((POLICY, out), (FIRST_DROPPED, bare)):
        assert privsieve("filter", tmp_path / "run", "--policy", with_policy(tmp_path, policy), "--out", to) == 0
    moved, other = tmp_path / "moved", tmp_path / "other"
    source.rename(moved)
    other.mkdir()
    tar(other / "0.tar", {"a.jpg": jpeg(9)})
    inside = out / "sheet.html"
    capsys.readouterr()
    for arguments, error in (
        ((out, "--contact-sheet", inside), f"--contact-sheet {inside} is inside of the release, and the page shows "
         "private pictures uncovered; write it to another folder"),
        ((bare, "--contact-sheet", sheet), f"--contact-sheet: {bare} holds no picture that was covered"),
        ((out, "--contact-sheet", sheet), f"--contact-sheet: {source} does not exist; --source says where the scanned "
         "pictures are"),
        ((out, "--contact-sheet", sheet, "--source", other), f"--contact-sheet: {other} holds none of the covered "
         "pictures as they were scanned; --source says where they are"),
        ((out, "--source", other), "--source is of --contact-sheet FILE; give it"),
    ):  # fmt: skip
        assert privsieve("release", "verify", *arguments) == 2
        assert capsys.readouterr().err == f"privsieve: {error}\n"
    with (out / "0.tar").open("ab") as release:
        release.write(b"more")
    assert privsieve("release", "verify", out, "--contact-sheet", sheet, "--source", moved) == 1
    assert capsys.readouterr().out == "0.tar: its content is not what was released\n"
    assert not sheet.exists()
    assert not inside.exists()
