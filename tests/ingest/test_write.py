"""What a release holds of a shard, in every format; files that are whole or not there."""

import io
import os
import subprocess
import tarfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import IncompleteError, StorageError
from ingest.formats import FORMATS, open_source
from ingest.formats.released import Kept
from ingest.formats.tar_samples import codec_of
from ingest.storage.place import Place, place
from tests.ingest.made import jpeg, parquet_file, raw_members, samples_of, tar_bytes
from tests.ingest.releasing import check_hashes, folders, sha256, small_disk, write

PICTURES = [jpeg(40 * n) for n in range(6)]


def kept(*indices: int, num_samples: int | None = None) -> Kept:
    return Kept({index: sha256(PICTURES[index]) for index in indices}, num_samples)


def webdataset(folder: Path) -> str:
    members = [m for n, picture in enumerate(PICTURES) for m in ((f"{n}.jpg", picture), (f"{n}.txt", b"words" * n))]
    (folder / "a.tar").write_bytes(tar_bytes(members))
    return "a.tar"


def tree(folder: Path) -> str:
    (folder / "a").mkdir()
    for n, picture in enumerate(PICTURES):
        (folder / "a" / f"{n}.jpg").write_bytes(picture)
        (folder / "a" / f"{n}.txt").write_bytes(b"words" * n)
    return "a"


def parquet(folder: Path) -> str:
    parquet_file(folder / "a.parquet", pa.table({"id": [str(n) for n in range(6)], "jpg": PICTURES}), rows=4)
    return "a.parquet"


MAKERS: dict[str, Callable[[Path], str]] = {"webdataset": webdataset, "tree": tree, "parquet": parquet}


@pytest.mark.parametrize("format_name", MAKERS)
def test_the_kept_samples_in_their_order_and_the_hash_of_every_file(tmp_path: Path, format_name: str) -> None:
    source, out = folders(tmp_path)
    shard = MAKERS[format_name](source)
    written = write(format_name, source, shard, kept(5, 0, 3, num_samples=6), out)
    assert written.num_samples == 3
    check_hashes(written, out)
    released = open_source(str(out), format_name, None)
    samples = [s for slice_ in released.slices(shard) for s in released.read(slice_)]
    assert [s.key.removesuffix(".jpg") for s in samples] == ["0", "3", "5"]
    assert [s.encoded for s in samples] == [PICTURES[n] for n in (0, 3, 5)]


@pytest.mark.parametrize("format_name", MAKERS)
def test_another_image_than_was_scanned_is_noticed(tmp_path: Path, format_name: str) -> None:
    source, out = folders(tmp_path)
    shard = MAKERS[format_name](source)
    wanted = Kept({0: sha256(PICTURES[0]), 2: sha256(PICTURES[3])}, 6)
    with pytest.raises(IncompleteError, match=rf"^{shard} has changed .*: sample 2(\.jpg)? holds another image;"):
        write(format_name, source, shard, wanted, out)
    left = [path.name for path in out.rglob("*") if path.is_file()]
    assert left == (["0.jpg"] if format_name == "tree" else [])


@pytest.mark.parametrize("format_name", MAKERS)
@pytest.mark.parametrize("num_then", [7, 5, None])
def test_another_number_of_samples_is_noticed(tmp_path: Path, format_name: str, num_then: int | None) -> None:
    source, out = folders(tmp_path)
    shard = MAKERS[format_name](source)
    chosen = {0: sha256(PICTURES[0])} | ({6: sha256(b"")} if num_then is None else {})
    with pytest.raises(IncompleteError, match=f"it has 6 samples, and had {num_then or 'more'}"):
        write(format_name, source, shard, Kept(chosen, num_then), out)
    assert not list(tmp_path.glob("out/**/*.*"))


@pytest.mark.parametrize("format_name", MAKERS)
def test_a_release_on_another_file_system(tmp_path: Path, format_name: str) -> None:
    source, out = folders(tmp_path)
    shard = MAKERS[format_name](source)
    expected = write(format_name, source, shard, kept(1, 2), out)
    url = f"memory://{uuid.uuid4().hex}"
    there = place(url)
    assert FORMATS[format_name].write(place(str(source)), shard, kept(1, 2), there) == expected
    assert {name: sha256(there.at(name).read()) for name in expected.files} == expected.files
    with pytest.raises(IncompleteError):
        FORMATS[format_name].write(place(str(source)), shard, Kept({1: sha256(b"")}, 6), there.at("changed"))
    assert not there.fs.find(there.at("changed").path)
    there.fs.rm(there.path, recursive=True)


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_contents_are_byte_for_byte_what_they_were_under_new_headers(tmp_path: Path, kind: int) -> None:
    source, out = folders(tmp_path)
    name = "n" * 90 if kind == tarfile.USTAR_FORMAT else "n" * 290
    folder = tarfile.TarInfo("dir")
    folder.type = tarfile.DIRTYPE
    members: list[tuple[str, bytes] | tarfile.TarInfo] = [folder]
    contents = [{"txt": b"words" * n, "jpg": picture, "json": b"{}"} for n, picture in enumerate(PICTURES)]
    for n, beside in enumerate(contents):
        members += [(f"{n}{name}.{extension}", content) for extension, content in beside.items()]
    (source / "a.tar").write_bytes(tar_bytes(members, kind))
    assert write("webdataset", source, "a.tar", kept(5, 0, 3, num_samples=6), out).num_samples == 3
    expected = {f"{n}{name}.{ext}": content for n in (0, 3, 5) for ext, content in contents[n].items()}
    after = raw_members(out / "a.tar")
    assert list(after) == list(expected)
    assert all(raw[512:].rstrip(b"\0").endswith(expected[member]) for member, raw in after.items())
    with tarfile.open(out / "a.tar") as archive:
        assert {m.name: (archive.extractfile(m) or io.BytesIO()).read() for m in archive} == expected
        assert {(m.mode, m.uid, m.gid, m.uname, m.gname) for m in archive} == {(0o644, 0, 0, "", "")}
    listed = subprocess.run(["tar", "tf", out / "a.tar"], capture_output=True, text=True, check=True)
    assert (listed.stdout.split(), listed.stderr) == (list(expected), "")
    released = (out / "a.tar").read_bytes()
    assert released.startswith(b"".join(after.values()))
    assert len(released) % 10240 == 0
    assert not released[len(b"".join(after.values())) :].strip(b"\0")
    assert [p.name for p in out.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_compressed_shard_is_compressed_again(tmp_path: Path, codec: str) -> None:
    source, out = folders(tmp_path)
    webdataset(source)
    plain = (source / "a.tar").read_bytes()
    shard = {"gzip": "b.tar.gz", "zstd": "b.tar.zst"}[codec]
    with pa.CompressedOutputStream(str(source / shard), codec) as stream:
        stream.write(plain)
    written = write("webdataset", source, shard, kept(1, 4, num_samples=6), out)
    assert written.num_samples == 2
    check_hashes(written, out)
    assert codec_of((out / shard).read_bytes()[:4]) == codec
    write("webdataset", source, "a.tar", kept(1, 4, num_samples=6), out)
    with pa.CompressedInputStream(str(out / shard), codec) as stream:
        assert stream.read() == (out / "a.tar").read_bytes()
    with pytest.raises(IncompleteError, match="sample 2 holds another image"):
        write("webdataset", source, shard, Kept({2: sha256(b"")}, 6), tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_is_kept_of_a_compressed_shard_that_is_cut(tmp_path: Path, codec: str) -> None:
    source, out = folders(tmp_path)
    noise = [os.urandom(60_000) for _ in range(6)]
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, codec) as stream:
        stream.write(tar_bytes([(f"{n}.jpg", content) for n, content in enumerate(noise)]))
    shard = {"gzip": "a.tar.gz", "zstd": "a.tar.zst"}[codec]
    (source / shard).write_bytes(packed.getvalue().to_pybytes()[:290_000])
    samples = samples_of(open_source(str(source / shard), None, None))
    hashes = {s.index: sha256(s.encoded) for s in samples if s.fault is None}
    assert len(samples) > len(hashes) >= 2
    written = write("webdataset", source, shard, Kept(hashes, len(samples)), out)
    check_hashes(written, out)
    again = samples_of(open_source(str(out / shard), None, None))
    assert [(s.encoded, s.fault) for s in again] == [(noise[n], None) for n in hashes]


def test_a_tree_gives_the_sidecars_of_kept_images_only(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    names = ["a b.jpg", "a b.JSON", "a b.txt", "ä.png", "ä.txt", "dropped.jpg", "dropped.txt", "listing.csv"]
    for number, name in enumerate(names):
        (source / name).write_bytes(PICTURES[number] if name.endswith(("jpg", "png")) else b'"words"')
    raw = os.fsencode(source) + b"/caf\xe9.jpg"
    Path(os.fsdecode(raw)).write_bytes(PICTURES[5])
    listed = open_source(str(source), "tree", None)
    (slice_,) = listed.slices(".")
    wanted = {s.index: sha256(s.encoded) for s in listed.read(slice_) if s.key != "dropped.jpg"}
    written = write("tree", source, ".", Kept(wanted, 4), out)
    assert set(written.files) == {"a b.jpg", "a b.JSON", "a b.txt", "ä.png", "ä.txt"}
    assert (written.num_samples, list(written.dropped.values())) == (2, ["it has a name that is not valid UTF-8"])
    check_hashes(written, out)


def test_a_picture_that_can_no_longer_be_read_is_noticed(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    tree(source)
    (source / "a" / "2.jpg").unlink()
    (source / "a" / "2.jpg").symlink_to("nowhere.jpg")
    with pytest.raises(IncompleteError, match=r"^a has changed since it was scanned: 2\.jpg cannot be read;"):
        write("tree", source, "a", kept(2, num_samples=6), out)


def test_what_could_not_be_read_in_a_folder_costs_the_other_pictures_nothing(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    tree(source)
    here = source / "a"
    (here / "4.txt").unlink()
    links = {"4.txt": "4.txt", "loop.jpg": "loop.jpg", "mem.jpg": "/proc/self/mem", "z.jpg": "/dev/zero"}
    links |= {"dangling.jpg": "nowhere", "folder.jpg": ".", "round.jpg": "trip.jpg", "trip.jpg": "round.jpg"}
    for name, target in links.items():
        (here / name).symlink_to(target)
    os.mkfifo(here / "pipe.jpg")
    listed = open_source(str(source), "tree", None)
    (slice_,) = listed.slices("a")
    samples = list(listed.read(slice_))
    assert [s.key for s in samples if not s.encoded] == sorted([*(links.keys() - {"4.txt"}), "pipe.jpg"])
    wanted = {s.index: sha256(s.encoded) for s in samples if s.encoded}
    written = write("tree", source, "a", Kept(wanted, len(samples)), out)
    expected = {f"a/{n}.{extension}" for n in range(6) for extension in ("jpg", "txt")} - {"a/4.txt"}
    assert (written.num_samples, set(written.files), written.left_out) == (6, expected, {"txt": 1})
    check_hashes(written, out)


def test_a_table_that_is_cut_short_is_noticed(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    parquet(source)
    (source / "a.parquet").write_bytes((source / "a.parquet").read_bytes()[:-200])
    message = r"^a\.parquet has changed since it was scanned: its footer cannot be read;"
    with pytest.raises(IncompleteError, match=message):
        write("parquet", source, "a.parquet", kept(0, num_samples=6), out)
    assert not out.exists()


def test_a_damaged_row_group_matters_where_rows_of_it_are_kept(tmp_path: Path) -> None:
    source, out = folders(tmp_path)
    noise = [os.urandom(2000) for _ in range(6)]
    parquet_file(source / "a.parquet", pa.table({"jpg": noise, "text": ["words"] * 6}), rows=2)
    content = bytearray((source / "a.parquet").read_bytes())
    start = content.index(noise[2][100:200])
    content[start - 130 : start + 100] = b"\xff" * 230
    (source / "a.parquet").write_bytes(bytes(content))
    wanted = {index: sha256(noise[index]) for index in (1, 4)}
    assert write("parquet", source, "a.parquet", Kept(wanted, 6), out).num_samples == 2
    assert pq.read_table(out / "a.parquet").to_pydict() == {"jpg": [noise[1], noise[4]], "text": ["words"] * 2}
    with pytest.raises(IncompleteError, match="row group 1 cannot be decoded"):
        write("parquet", source, "a.parquet", Kept(wanted | {3: sha256(noise[3])}, 6), tmp_path / "other")


@pytest.mark.parametrize("format_name", ["webdataset", "parquet"])
def test_nothing_kept_is_an_empty_shard(tmp_path: Path, format_name: str) -> None:
    source, out = folders(tmp_path)
    shard = MAKERS[format_name](source)
    check_hashes(write(format_name, source, shard, kept(num_samples=6), out), out)
    assert samples_of(open_source(str(out / shard), None, None)) == []


def places(tmp_path: Path) -> list[Place]:
    return [place(str(tmp_path / "folder" / "file")), place(f"memory://{uuid.uuid4().hex}/folder/file")]


def write_half(target: Place, error: type[BaseException]) -> None:
    with target.create() as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, FileNotFoundError, IncompleteError])
def test_an_error_leaves_what_was_there_before(tmp_path: Path, error: type[BaseException]) -> None:
    for target in places(tmp_path):
        target.write(b"before")
        with pytest.raises(error):
            write_half(target, error)
        assert target.read() == b"before"
        assert [posix.rpartition("/")[2] for posix in target.fs.find(target.path.rpartition("/")[0])] == ["file"]
        with target.create() as file:
            file.write(b"after")
        assert target.read() == b"after"


@pytest.mark.parametrize("num_bytes", [9_000, 900_000])
def test_a_file_that_does_not_fit_is_one_line_and_nothing_is_left(tmp_path: Path, num_bytes: int) -> None:
    with small_disk(), pytest.raises(StorageError, match=r"^cannot write .*/folder/file: file too large$"):
        place(str(tmp_path / "folder" / "file")).write(b"x" * num_bytes)
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("format_name", ["webdataset", "parquet"])
def test_a_shard_that_does_not_fit_is_one_line_and_nothing_is_left(tmp_path: Path, format_name: str) -> None:
    source, out = folders(tmp_path)
    noise = os.urandom(20_000)
    (source / "a.tar").write_bytes(tar_bytes([("0.jpg", noise)]))
    parquet_file(source / "a.parquet", pa.table({"jpg": [noise]}))
    shard = {"webdataset": "a.tar", "parquet": "a.parquet"}[format_name]
    with small_disk(), pytest.raises(StorageError, match=r"^cannot write .*/out/a\.\w+: file too large$"):
        write(format_name, source, shard, Kept({0: sha256(noise)}, 1), out)
    assert not list(out.iterdir())
