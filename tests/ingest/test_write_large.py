"""Large files: their hashes, and pictures that are not the scanned ones."""

import os
from pathlib import Path

import pytest

from ingest.errors import IncompleteError
from ingest.formats.released import Kept
from ingest.storage.place import place
from ingest.storage.streams import WRITTEN_BACK_BYTES
from tests.ingest.made import tar_bytes
from tests.ingest.releasing import check_hashes, folders, sha256, write

IMAGES = [bytes([1]) * 200_000, os.urandom(9 * 2**20), b"small", b""]
"""One of them has several blocks."""


@pytest.mark.parametrize("format_name", ["local", "memory"])
@pytest.mark.parametrize("piece_bytes", [700, 100_000, 2**20])
def test_the_hash_is_of_all_that_was_written(tmp_path: Path, format_name: str, piece_bytes: int) -> None:
    content = os.urandom(5 * 2**19 + 17)
    folder = place(str(tmp_path) if format_name == "local" else f"memory://{tmp_path.name}")
    target = folder.at("file")
    with target.create() as file:
        buffer = bytearray(piece_bytes)  # used again for each piece, as a compressing writer may
        for start in range(0, len(content), piece_bytes):
            piece = content[start : start + piece_bytes]
            buffer[: len(piece)] = piece
            file.write(memoryview(buffer)[: len(piece)])
            if start == 0:
                assert (file.sha256, file.tell()) == (sha256(piece), len(piece))
        assert not target.exists()
    assert target.read() == content
    assert folder.names() == ["file"]
    assert file.sha256 == sha256(content)


def test_a_file_whose_writing_to_disk_begins_early_is_whole(tmp_path: Path) -> None:
    content = os.urandom(2 * WRITTEN_BACK_BYTES + 5)
    with place(str(tmp_path / "file")).create() as file:
        for start in range(0, len(content), 2**20):
            file.write(content[start : start + 2**20])
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize("number", range(len(IMAGES)))
def test_another_image_is_noticed_wherever_it_lies(tmp_path: Path, number: int) -> None:
    source, out = folders(tmp_path)
    scanned = {index: sha256(image) for index, image in enumerate(IMAGES)}
    there = [b"another" if index == number else image for index, image in enumerate(IMAGES)]
    (source / "a.tar").write_bytes(tar_bytes([(f"{index}.jpg", image) for index, image in enumerate(there)]))
    with pytest.raises(IncompleteError, match=f"a.tar has changed since it was scanned: sample {number} holds another"):
        write("webdataset", source, "a.tar", Kept(scanned, len(IMAGES)), out)
    assert not list(out.iterdir())


def test_large_images_are_released_with_the_hash_of_their_shard(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    scanned = {index: sha256(image) for index, image in enumerate(IMAGES)}
    (source / "a.tar").write_bytes(tar_bytes([(f"{index}.jpg", image) for index, image in enumerate(IMAGES)]))
    check_hashes(write("webdataset", source, "a.tar", Kept(scanned, len(IMAGES)), out), out)
