"""Image trees: which files are rows, and what a file that is no file does."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

from ingest.errors import Fault, StorageError
from ingest.formats import FORMATS, open_source, shard
from ingest.formats import tree as tree_format
from ingest.formats.released import Kept
from ingest.sample import Sample
from ingest.storage.place import place
from tests.forbidden import forbidden, public_folder
from tests.ingest.made import jpeg, samples_of, slices_of
from tests.jobs.made import privsieve
from tests.making import Capture


def tree(folder: Path, *names: str) -> Path:
    for n, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(n))
    return folder


def rows(folder: Path) -> list[Sample]:
    return samples_of(open_source(str(folder), "tree", None))


def faults(folder: Path) -> dict[str, str | None]:
    return {s.key: s.fault.reason if s.fault else None for s in rows(folder)}


def test_every_file_is_a_row_but_hidden_ones_and_sidecars(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "a/page.jpg", "a/drawing.svg", "a/README", "a/x.exe")
    tree(tmp_path, "a/.hidden.jpg", ".git/2.jpg", "a/1.txt", "a/1.JSON", "a/l.csv", "a/l.md", "a/l.parquet")
    (tmp_path / "only_text").mkdir()
    (tmp_path / "only_text" / "notes.txt").write_text("words")
    (tmp_path / "empty").mkdir()
    assert [(s.shard, s.index, s.key) for s in rows(tmp_path)] == [
        ("a", n, key) for n, key in enumerate(["1.jpg", "README", "drawing.svg", "page.jpg", "x.exe"])
    ]


def test_the_folder_is_the_category_and_the_root_has_none(tmp_path: Path) -> None:
    tree(tmp_path, "top.jpg", "a/airfield/1.jpg", "b/1.jpg", "b/deep/er/1.jpg")
    folders = ["a/airfield", "b", "b/deep/er"]
    assert [(s.shard, s.category) for s in rows(tmp_path)] == [(".", None), *((name, name) for name in folders)]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a\nb.jpg", "a\\nb.jpg"),
        ("caf\udce9.jpg", "caf\\xe9.jpg"),
        ("ä €.jpg", "ä €.jpg"),
        ("back\\slash.jpg", "back\\slash.jpg"),
        ("a*[b]{c,d}?#%20.jpg", "a*[b]{c,d}?#%20.jpg"),
        ("~.jpg", "~.jpg"),
        ("file::b.jpg", "file::b.jpg"),
        ("-rf", "-rf"),
        (" space .jpg ", " space .jpg "),
        ("noextension", "noextension"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
    ],
)
def test_odd_names(tmp_path: Path, name: str, key: str) -> None:
    tree(tmp_path / "in" / name, name)
    (sample,) = rows(tmp_path / "in")
    assert (sample.shard, sample.key, sample.category, sample.fault) == (key, key, key, None)
    assert sample.encoded == jpeg(0)


def test_links_to_files_are_followed_and_links_to_folders_are_rows_that_say_so(tmp_path: Path) -> None:
    source = tree(tmp_path / "source", "a/1.jpg", "b/2.jpg")
    (tmp_path / "elsewhere.jpg").write_bytes(jpeg(9))
    (source / "a" / "linked.jpg").symlink_to("../../elsewhere.jpg")
    (source / "a" / "up").symlink_to("..")
    (source / "b" / "other").symlink_to("../a")
    (source / "b" / "out.txt").symlink_to(tmp_path)
    found = {(s.shard, s.key): s for s in rows(source)}
    linked = Fault("linked_folder", "a link to a folder, which is not followed; scan the folder itself")
    assert {place: sample.fault for place, sample in found.items()} == {
        ("a", "1.jpg"): None,
        ("a", "linked.jpg"): None,
        ("a", "up"): linked,
        ("b", "2.jpg"): None,
        ("b", "other"): linked,
        ("b", "out.txt"): linked,
    }
    assert found["a", "linked.jpg"].encoded == jpeg(9)


def test_what_is_no_file_is_a_row_and_blocks_nothing(tmp_path: Path) -> None:
    tree(tmp_path, "0.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "device.jpg").symlink_to("/dev/zero")
    (tmp_path / "to_pipe.jpg").symlink_to("pipe.jpg")
    (tmp_path / "dangling.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert faults(tmp_path) == {
            "0.jpg": None,
            "dangling.jpg": "unreadable",
            "device.jpg": "not_a_file",
            "loop.jpg": "unreadable",
            "pipe.jpg": "not_a_file",
            "s": "not_a_file",
            "to_pipe.jpg": "not_a_file",
        }


def test_a_file_that_vanishes_is_a_row_and_a_folder_that_does_a_storage_error(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "a/2.jpg", "a/3.jpg")
    source = open_source(str(tmp_path), None, None)
    (slice_,) = slices_of(source)
    (tmp_path / "a" / "2.jpg").unlink()
    (tmp_path / "a" / "3.jpg").unlink()
    (tmp_path / "a" / "3.jpg").mkdir()
    assert [(s.key, s.fault) for s in source.read(slice_)] == [
        ("1.jpg", None),
        ("2.jpg", Fault("unreadable", "no such file or directory")),
        ("3.jpg", Fault("unreadable", "is a directory")),
    ]
    (tmp_path / "a").rename(tmp_path / "b")
    for attempt in (lambda: list(source.read(slice_)), lambda: list(source.slices("a"))):
        with pytest.raises(StorageError, match=r"^cannot read a: no such file or directory$"):
            attempt()


def test_a_folder_that_may_not_be_read_is_reported_before_anything_is_done(capsys: Capture) -> None:
    with public_folder() as folder:
        corpus, run = tree(folder / "corpus", "a/1.jpg", "b/deep/2.jpg"), folder / "run"
        # Imports all that a scan needs, which another user may not be able to read.
        assert privsieve("scan", corpus, "--run", folder / "first", "--engine", "canned") == 0
        capsys.readouterr()
        with forbidden(corpus / "b" / "deep"):
            assert privsieve("scan", corpus, "--run", run, "--engine", "canned") == 2
        message = "cannot list the folder b/deep: permission denied; nothing was done; make it readable, or move it out"
        assert capsys.readouterr().err == f"privsieve: {message} of the source\n"
        assert not run.exists()


def test_a_caption_that_several_pictures_share_is_released_where_all_are_kept(tmp_path: Path) -> None:
    source = tree(tmp_path / "in", "a/x.jpg", "a/x.png", "a/y.jpg", "a/y.webp", "a/z.jpg")
    for name in ("x.txt", "x.json", "y.txt", "z.JSON"):
        (source / "a" / name).write_bytes(b'"words"')
    samples = {s.key: (s.index, hashlib.sha256(s.encoded).hexdigest()) for s in rows(source)}
    kept = Kept(dict(hashed for key, hashed in samples.items() if key != "x.png"), 5)
    written = FORMATS["tree"].write(place(str(source)), "a", kept, place(str(tmp_path / "out")))
    released = {"x.jpg", "y.jpg", "y.webp", "y.txt", "z.jpg", "z.JSON"}
    assert {path.name for path in (tmp_path / "out" / "a").iterdir()} == released
    assert written.files.keys() == {f"a/{name}" for name in released}


def test_a_file_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "a/2.jpg")
    with open(tmp_path / "a" / "huge.jpg", "wb") as file:
        file.truncate(shard.MAX_IMAGE_BYTES + 1)
    assert faults(tmp_path) == {"1.jpg": None, "2.jpg": None, "huge.jpg": "too_many_bytes"}


def test_a_changed_picture_behind_a_link_is_noticed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.jpg"
    target.write_bytes(jpeg(1))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jpg").symlink_to(target)
    (tmp_path / "in" / "1.jpg").symlink_to("nowhere.jpg")
    before = tree_format.version_marks(place(str(tmp_path / "in")), ".")
    assert tree_format.version_marks(place(str(tmp_path / "in")), ".") == before
    os.utime(target, (1, 1))  # as large as before
    assert tree_format.version_marks(place(str(tmp_path / "in")), ".") != before
