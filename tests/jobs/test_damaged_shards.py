"""A damaged shard is counted apart from images by every command, and nothing is said of all images of its source."""

import shutil
from pathlib import Path

import pytest

import privsieve as api
from ingest.storage.place import place
from scoring.runs.audit_files import read_sample
from tests.jobs.made import jpeg, privsieve, tar
from tests.making import Capture, Folders

CAUTION = "1 shard is damaged (truncated_shard 1): an unknown number of its images was not seen"
CLAIMS = ("all images of the source", "All images", "all images", "of all images", "The whole source:")
"""What may not be said where an unknown number of images was not seen."""


def pictures(first: int, count: int) -> dict[str, bytes]:
    return {f"{number:05d}.jpg": jpeg(number) for number in range(first, first + count)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: Folders) -> Path:
    """Twenty pictures in a whole tar, and a tar of as many that was cut within the ninth."""
    folder = tmp_path_factory.mktemp("damaged") / "crawl"
    folder.mkdir()
    tar(folder / "00000.tar", pictures(0, 20))
    tar(folder / "00001.tar", pictures(20, 20))
    whole = (folder / "00001.tar").read_bytes()
    ninth = whole.index(b"00028.jpg")
    (folder / "00001.tar").write_bytes(whole[: ninth + 600])
    return folder


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    assert privsieve("scan", corpus, "--run", corpus.parent / "run", "--engine", "canned") == 0
    return corpus.parent / "run"


@pytest.mark.slow
def test_an_audit_counts_images_and_knows_the_rows_of_the_run_again(run: Path, tmp_path: Path, capsys: Capture) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    assert privsieve("audit", "sample", run, "--n", 28, "--out", tmp_path / "list.csv") == 0
    said = capsys.readouterr()
    assert CAUTION in said.err
    assert "quarantined images cannot be drawn" not in said.out
    assert read_sample(place(str(run))).design.num_rows == 29
    listed = (tmp_path / "list.csv").read_text().splitlines()
    filled = [listed[0], *(line.replace(",,", ",1,", 1) for line in listed[1:])]
    (tmp_path / "list.csv").write_text("\n".join(filled))
    assert privsieve("audit", "apply", run, tmp_path / "list.csv") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{CAUTION}\n")
    assert "images   28: 28 scored, 0 quarantined\n" in text
    page = tmp_path / "page.html"
    assert privsieve("report", run, "--html", page) == 0
    text = capsys.readouterr().out
    assert "No figure on this page is of the whole source." in page.read_text().partition('"finding"')[0]
    assert "corrected by" in text
    assert not [claim for claim in CLAIMS if claim in text]
    assert privsieve("sql", run, "SELECT corrected_rate FROM corrected_rates WHERE subject = 'private'") == 0


def test_the_python_package_says_it_too(corpus: Path, tmp_path: Path) -> None:
    found = api.scan(str(corpus), str(tmp_path / "run"), engine="canned", executor="inline")
    assert (found.num_images, found.num_quarantined, dict(found.reasons)) == (28, 0, {})
    assert found.damage.caution == CAUTION
    report = api.report(str(tmp_path / "run"))
    assert (report.is_whole, report.scope) == (False, "the images of the source that could be read")
    assert report.left_out.damaged_parts == found.damage.parts
