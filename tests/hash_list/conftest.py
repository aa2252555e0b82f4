"""A hash list, a corpus with pictures on it, and its runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hash_list.listed import CLEAR, LISTED, SECRET, SHOWING, UNKNOWN, pdq, picture
from tests.jobs.made import privsieve, tar
from tests.making import Folders

KEEP_ALL = "name: keep-all\nrules: []\ndefault: keep\nquarantined: keep\n"


@pytest.fixture(scope="package")
def hash_list(tmp_path_factory: Folders) -> Path:
    file = tmp_path_factory.mktemp("lists") / "list.txt"
    file.write_text(f"# of pictures that nobody may see\npdq {pdq(picture(LISTED))}\n")
    return file


@pytest.fixture(scope="package")
def corpus(tmp_path_factory: Folders) -> Path:
    """A tar of all of them, with a category and a caption beside each."""
    members: dict[str, bytes] = {}
    for prefix, files in ((SECRET, SHOWING), ("clear", CLEAR), ("unknown", UNKNOWN)):
        for name, make in files.items():
            stem = f"{prefix}-{name.replace('.', '-')}"
            members[f"{stem}.{name.rpartition('.')[2]}"] = make()
            members[f"{stem}.json"] = json.dumps({"category": f"{prefix}-class", "url": f"http://{stem}"}).encode()
            members[f"{stem}.txt"] = f"{stem}, phone 555 0100".encode()
    folder = tmp_path_factory.mktemp("corpora") / "tars"
    folder.mkdir()
    tar(folder / "00000.tar", members)
    return folder


@pytest.fixture(scope="package")
def runs(corpus: Path, hash_list: Path, tmp_path_factory: Folders) -> dict[str, Path]:
    """Without hashes, with them, and scanned with the list."""
    folder = tmp_path_factory.mktemp("runs")
    options: dict[str, Sequence[object]] = {"plain": (), "pdq": ("--pdq",), "list": ("--hash-list", hash_list)}
    for name, more in options.items():
        assert privsieve("scan", corpus, "--run", folder / name, "--engine", "canned", *more) == 0
    return {name: folder / name for name in options}


@pytest.fixture(scope="package")
def keep_all(tmp_path_factory: Folders) -> Path:
    file = tmp_path_factory.mktemp("policies") / "keep-all.yaml"
    file.write_text(KEEP_ALL)
    return file
