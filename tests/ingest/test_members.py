"""What a release takes of that which lies beside a picture, in tars and folders, and what it drops as unsafe."""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from ingest.formats import FORMATS, open_source
from ingest.formats.members import MAX_LISTED_BYTES, ArchiveNames, Members, name_fault
from ingest.formats.released import Kept, Written
from ingest.storage.place import place
from tests.ingest.made import jpeg, samples_of, tar_bytes
from tests.ingest.raw_tar import END, member, pax, sparse
from tests.ingest.raw_tar import header as raw_header
from tests.ingest.texts import CAPTIONS, LIKE_PICTURES, TEXT_PICTURES

PICTURES = [jpeg(40 * n) for n in range(3)]
EXTENSIONS = (
    *("jfif", "jpe", "apng", "dib", "pgm", "pbm", "pnm", "ico", "icns", "tga", "pcx", "sgi", "psd", "eps", "dds"),
    *("j2k", "mpo", "hdr", "exr", "qoi", "bin", "txt", "json", "cls", "0", "thumbnail.data"),
)


def kept(*indices: int, members: Members = "listed", num_samples: int | None = None) -> Kept:
    return Kept({n: hashlib.sha256(PICTURES[n]).hexdigest() for n in indices}, num_samples, members)


def release(folder: Path, content: bytes, wanted: Kept) -> tuple[Written, dict[str, bytes]]:
    """The shard `content` released; name -> content of what is in it."""
    (folder / "a.tar").write_bytes(content)
    written = FORMATS["webdataset"].write(place(str(folder)), "a.tar", wanted, place(str(folder / "out")))
    with tarfile.open(folder / "out" / "a.tar") as archive:
        assert all(m.isreg() and m.mode == 0o644 for m in archive)
        return written, {m.name: (archive.extractfile(m) or io.BytesIO()).read() for m in archive}


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_second_picture_is_seen_under_any_extension(tmp_path: Path, extension: str) -> None:
    content = tar_bytes([("0.jpg", PICTURES[0]), (f"0.{extension}", PICTURES[1]), ("1.jpg", PICTURES[1])])
    (tmp_path / "a.tar").write_bytes(content)
    samples = samples_of(open_source(str(tmp_path / "a.tar"), None, None))
    assert [(s.key, s.fault and s.fault.reason) for s in samples] == [("0", "several_images"), ("1", None)]
    written, found = release(tmp_path, content, kept(0, 1, members="all"))  # a run by a version that did not see it
    assert found == {"1.jpg": PICTURES[1]}
    assert (written.num_samples, written.dropped) == (1, {0: "2 members are images, and one is expected"})


@pytest.mark.parametrize("caption", [*CAPTIONS, *LIKE_PICTURES])
def test_a_sample_is_scanned_and_released_whatever_its_caption_says(tmp_path: Path, caption: bytes) -> None:
    as_json = json.dumps(caption.decode()).encode()
    members = {"0.jpg": PICTURES[0], "0.txt": caption, "0.json": as_json, "0.cls": caption}
    (tmp_path / "a.tar").write_bytes(tar_bytes(members.items()))
    [sample] = samples_of(open_source(str(tmp_path / "a.tar"), None, None))
    assert (sample.encoded, sample.fault) == (PICTURES[0], None)
    assert release(tmp_path, (tmp_path / "a.tar").read_bytes(), kept(0))[1] == members


@pytest.mark.parametrize("content", TEXT_PICTURES)
def test_a_second_picture_that_is_text_is_seen_under_txt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(tar_bytes([("0.jpg", PICTURES[0]), ("0.txt", content)]))
    [sample] = samples_of(open_source(str(tmp_path / "a.tar"), None, None))
    assert sample.fault is not None
    assert sample.fault.reason == "several_images"


def test_a_picture_alone_is_the_image_under_any_extension(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_bytes([("0.jfif", PICTURES[0]), ("0.txt", b"words"), ("1", PICTURES[1])]))
    samples = samples_of(open_source(str(tmp_path / "a.tar"), None, None))
    assert [(s.key, s.encoded, s.fault) for s in samples] == [("0", PICTURES[0], None), ("1", PICTURES[1], None)]
    _, found = release(tmp_path, (tmp_path / "a.tar").read_bytes(), kept(0, 1))
    assert found == {"0.jfif": PICTURES[0], "0.txt": b"words", "1": PICTURES[1]}


BESIDE = {
    "0.jpg": PICTURES[0],
    "0.txt": "words, ä\n".encode(),
    "0.seg.json": b'{"caption": "words"}',
    "0.cls": b"7",
    "0.npy": b"\x93NUMPY",
    "0.pkl": b"cos\nsystem\n.",
    "0.SH": b"#!/bin/sh",
    "0.what is this": b"words",
    "0": b"words",
    "1.jpg": PICTURES[1],
    "1.txt": b"caf\xe9",
    "1.a.txt": b"words\0\xff",
    "1.b.txt": b"w" * (MAX_LISTED_BYTES + 1),
    "1.json": b"{broken",
    "1.b.json": b"[" * 200_000,
    "1.c.json": '{"a": 1}'.encode("utf-16"),
    "1.cls": b"",
}


NEVER_LISTED = {"npy": 1, "pkl": 1, "sh": 1, "(other)": 1, "(no extension)": 1}


@pytest.mark.parametrize(
    ("members", "taken", "left_out"),
    [
        ("listed", {"0.txt", "0.seg.json", "0.cls", "1.cls"}, {**NEVER_LISTED, "txt": 3, "json": 3}),
        ("image-only", set(), {**NEVER_LISTED, "txt": 4, "json": 4, "cls": 2}),
        ("all", BESIDE.keys(), {}),
    ],
)
def test_what_goes_with_an_image_is_what_the_policy_says(
    tmp_path: Path, members: Members, taken: set[str], left_out: dict[str, int]
) -> None:
    written, found = release(tmp_path, tar_bytes(BESIDE.items()), kept(0, 1, members=members))
    assert list(found) == [name for name in BESIDE if name in {"0.jpg", "1.jpg"} | taken]
    assert all(found[name] == BESIDE[name] for name in found)
    assert (written.num_samples, written.left_out, written.dropped) == (2, left_out, {})


def info(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.linkname = kind, mode, "/etc/passwd"
    return made.tobuf()


LINK = "a member is a link, a device or a sparse file"
SET_ID = "a member is a program that runs as another user (set-uid or set-gid)"


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (info("0.lnk", tarfile.SYMTYPE), LINK),
        (info("0.txt", tarfile.LNKTYPE), LINK),
        (info("0.dev", tarfile.CHRTYPE), LINK),
        (info("0.dev", tarfile.BLKTYPE), LINK),
        (info("0.dev", tarfile.FIFOTYPE), LINK),
        (info("0.dev", b"Z"), LINK),
        (sparse("0.txt", b"words", 5000), LINK),
        (info("0.d", tarfile.DIRTYPE), "a member is a folder"),
        (info("0.sh", mode=0o4755), SET_ID),
        (info("0.sh", mode=0o2755), SET_ID),
        (info("0.\x1b[2J.txt"), "a member has control characters in its name"),
        (pax(path="0.a\nb.txt") + info("x"), "a member has control characters in its name"),
    ],
)
@pytest.mark.parametrize("members", ["listed", "image-only", "all"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_sample_with_an_unsafe_member_is_dropped_with_the_reason(
    tmp_path: Path, odd: bytes, why: str, members: Members, is_first: bool
) -> None:
    is_first = is_first and why != "a member is a folder"  # before a picture it is no part of the sample
    both = (odd, member("0.jpg", PICTURES[0])) if is_first else (member("0.jpg", PICTURES[0]), odd)
    content = b"".join(both) + member("1.jpg", PICTURES[1]) + END
    written, found = release(tmp_path, content, kept(0, 1, members=members, num_samples=2))
    assert found == {"1.jpg": PICTURES[1]}
    assert (written.num_samples, written.dropped) == (1, {0: why})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/0.jpg", "an absolute name"),
        ("../0.jpg", "a name that leads out of the folder"),
        ("a/../../0.jpg", "a name that leads out of the folder"),
        ("", "an empty name, or one of a folder"),
        (".", "the name of a folder"),
        ("a/.", "the name of a folder"),
        ("..\\..\\0.jpg", "a name that leads out of the folder"),
        ("C:\\0.jpg", "a backslash in its name, which separates folders on Windows"),
        ("0\x7f.jpg", "control characters in its name"),
        ("0\u202egpj.exe", "characters in its name that change the order in which it is shown"),
        ("a\u2066/0.jpg", "characters in its name that change the order in which it is shown"),
        ("C:/0.jpg", "a name that begins with a drive letter"),
        ("c:0.jpg", "a name that begins with a drive letter"),
        ("caf\udce9.jpg", "a name that is not valid UTF-8"),
        ("a/" * 101 + "0.jpg", "a name of more than 100 folders"),
    ],
)
def test_a_name_that_leads_out_is_not_released(tmp_path: Path, name: str, why: str) -> None:
    content = pax(path=name) + member("x", PICTURES[0]) if name else raw_header("", size=len(PICTURES[0])) + PICTURES[0]
    content += b"\0" * (-len(content) % 512) + member("1.jpg", PICTURES[1]) + END
    written, found = release(tmp_path, content, kept(0, 1))
    assert found == {"1.jpg": PICTURES[1]}
    assert written.dropped == {0: f"a member has {why}"}
    assert name_fault(name) == why


@pytest.mark.parametrize(
    "name",
    ["./0.jpg", "a//b/0.jpg", "ä.jpg", "-rf.jpg", "a..b.jpg", "\u05d0\u05d1.jpg", "\u0627\u0644.jpg", "file::b.jpg"],
)
def test_names_that_are_only_odd_are_released(tmp_path: Path, name: str) -> None:
    content = tar_bytes([(name, PICTURES[0])], tarfile.GNU_FORMAT)
    assert list(release(tmp_path, content, kept(0))[1]) == [name]


def test_a_name_that_is_taken_is_not_released_again(tmp_path: Path) -> None:
    members = [("0.jpg", PICTURES[0]), ("x/1.jpg", PICTURES[1]), ("./0.jpg", PICTURES[2])]
    written, found = release(tmp_path, tar_bytes(members), kept(0, 1, 2))
    assert list(found) == ["0.jpg", "x/1.jpg"]
    assert written.dropped == {2: "a member has the name of another file or folder of the release"}
    twice = [("0.jpg", PICTURES[0]), ("0.txt", b"one"), ("0.txt", b"two"), ("1.jpg", PICTURES[1])]
    assert list(release(tmp_path, tar_bytes(twice), kept(0, 1))[1]) == ["1.jpg"]
    names = ArchiveNames()
    assert [names.add([name]) for name in ("a/b", "a", "a/b/c", "a/c", "d/../a/c")] == [True, False, False, True, False]


def test_nothing_hides_in_headers_or_padding(tmp_path: Path) -> None:
    made = tarfile.TarInfo("0.jpg")
    made.size, made.mtime, made.mode, made.uid, made.uname = len(PICTURES[0]), 1_234_567_890, 0o777, 42, "SECRET"
    made.pax_headers = {"comment": "SECRET", "SCHILY.xattr.user.note": "SECRET"}
    padding = b"SECRET" * 99
    content = made.tobuf(tarfile.PAX_FORMAT) + PICTURES[0] + padding[: -len(PICTURES[0]) % 512]
    _, found = release(tmp_path, content + END + b"SECRET" * 999, kept(0))
    assert found == {"0.jpg": PICTURES[0]}
    assert b"SECRET" not in (tmp_path / "out" / "a.tar").read_bytes()
    with tarfile.open(tmp_path / "out" / "a.tar") as archive:
        (after,) = archive.getmembers()
    assert (after.mtime, after.uid, after.uname, after.pax_headers) == (1_234_567_890, 0, "", {})


@pytest.mark.parametrize("mtime", ["nan", "inf", "-5", "1e30", "12.75"])
def test_times_that_are_no_sane_number(tmp_path: Path, mtime: str) -> None:
    release(tmp_path, pax(mtime=mtime) + member("0.jpg", PICTURES[0]) + END, kept(0))
    with tarfile.open(tmp_path / "out" / "a.tar") as archive:
        assert [m.mtime for m in archive] == [12 if mtime == "12.75" else 0]


@pytest.mark.parametrize("records", [{"path": "SECRET.jpg"}, {"size": "3"}, {"linkpath": "/etc"}, {"mtime": "7"}])
def test_a_global_header_changes_nothing_and_all_readers_list_the_release_alike(
    tmp_path: Path, records: dict[str, str]
) -> None:
    everywhere = pax(tarfile.XGLTYPE, **records)
    three = [member(f"{n}.jpg", picture) for n, picture in enumerate(PICTURES)]
    damage = b"\xa5" * 512
    written, found = release(tmp_path, everywhere + three[0] + damage + three[2] + END, kept(0, 2))
    assert found == {"0.jpg": PICTURES[0], "2.jpg": PICTURES[2]}
    assert written.num_samples == 2
    listed = subprocess.run(["tar", "tf", tmp_path / "out" / "a.tar"], capture_output=True, text=True, check=True)
    assert (listed.stdout, listed.stderr) == ("0.jpg\n2.jpg\n", "")
    again = samples_of(open_source(str(tmp_path / "out" / "a.tar"), None, None))
    assert [(s.key, s.encoded) for s in again] == [("0", PICTURES[0]), ("2", PICTURES[2])]


def tree(folder: Path) -> Path:
    """Two pictures, one with sidecars of every kind."""
    source = folder / "in" / "a"
    source.mkdir(parents=True)
    (folder / "secret").write_bytes(b"of another folder")
    for n, name in enumerate(["0.jpg", "1.jpg", "2.jpg"]):
        (source / name).write_bytes(PICTURES[n])
    (source / "0.txt").symlink_to(folder / "secret")
    (source / "0.json").write_bytes(b"{broken")
    (source / "1.txt").write_bytes(PICTURES[2])
    os.mkfifo(source / "1.json")
    (source / "2.txt").write_bytes(b"words")
    (source / "2.json").write_bytes(b"{}")
    return folder / "in"


@pytest.mark.parametrize(
    ("members", "beside", "left_out"),
    [
        ("listed", {"2.txt", "2.json"}, {"txt": 2, "json": 2}),
        ("all", {"2.txt", "2.json", "0.json"}, {"txt": 2, "json": 1}),
        ("image-only", set(), {"txt": 3, "json": 3}),
    ],
)
def test_a_sidecar_is_released_where_it_is_a_file_and_holds_what_it_says(
    tmp_path: Path, members: Members, beside: set[str], left_out: dict[str, int]
) -> None:
    source, out = tree(tmp_path), tmp_path / "out"
    written = FORMATS["tree"].write(place(str(source)), "a", kept(0, 1, 2, members=members), place(str(out)))
    assert {path.name for path in (out / "a").iterdir()} == {"0.jpg", "1.jpg", "2.jpg"} | beside
    assert written.files.keys() == {f"a/{name}" for name in {"0.jpg", "1.jpg", "2.jpg"} | beside}
    assert (written.num_samples, written.left_out, written.dropped) == (3, left_out, {})


def test_a_sidecar_of_any_size_is_copied_whole(tmp_path: Path) -> None:
    source, out, words = tmp_path / "in", tmp_path / "out", b"words " * (MAX_LISTED_BYTES // 2)
    source.mkdir()
    (source / "0.jpg").write_bytes(PICTURES[0])
    (source / "0.txt").write_bytes(words)
    written = FORMATS["tree"].write(place(str(source)), ".", kept(0, members="all"), place(str(out)))
    assert (out / "0.txt").read_bytes() == words
    assert written.files["0.txt"] == hashlib.sha256(words).hexdigest()


def test_what_was_written_is_the_same_after_json() -> None:
    written = Written(2, {"caf\udce9.jpg": "00"}, {7: "why"}, {"txt": 3})
    assert Written.from_json(written.to_json()) == written
    for damaged in ("", "{", "[]", "null", '{"num_samples": 1, "files": {}}', '{"num_samples": 1, "files": 3}'):
        with pytest.raises(ValueError, match=r"Expecting|not a record|property name"):
            Written.from_json(damaged)
