"""What a source is taken for, and the line where it is nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from ingest.errors import SourceError, StorageError
from ingest.formats import open_source
from tests.ingest.made import jpeg, parquet_file, slices_of, tar_bytes


def shard(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes([("a.jpg", jpeg(1))]))


@pytest.mark.parametrize("beside", ["LICENSE", "_SUCCESS", "README.md", "00000_stats.json", ".hidden.jpg", "png"])
@pytest.mark.parametrize("format_name", ["webdataset", "parquet"])
def test_shards_are_recognised_beside_other_files(tmp_path: Path, format_name: str, beside: str) -> None:
    if format_name == "webdataset":
        shard(tmp_path / "deep" / "0.tar")
    else:
        parquet_file(tmp_path / "deep" / "0.parquet", pa.table({"image": [jpeg(1)]}))
    (tmp_path / beside).write_bytes(b"words")
    source = open_source(str(tmp_path), None, None)
    assert source.format == format_name
    assert [os.path.splitext(name)[0] for name in source.shards] == ["deep/0"]


@pytest.mark.parametrize("picture", ["a.jpg", "deep/a.JPEG", "a.gif", "a.svg"])
@pytest.mark.parametrize("tar", ["0.tar", "0.tar.gz"])
def test_tars_beside_loose_pictures_are_refused(tmp_path: Path, picture: str, tar: str) -> None:
    shard(tmp_path / tar)
    (tmp_path / picture).parent.mkdir(exist_ok=True)
    (tmp_path / picture).write_bytes(jpeg(1))
    message = r"holds both .tar shards and loose pictures; say which with --source-format$"
    with pytest.raises(SourceError, match=message):
        open_source(str(tmp_path), None, None)
    assert open_source(str(tmp_path), "webdataset", None).shards == (tar,)
    assert open_source(str(tmp_path), "tree", None).format == "tree"


def test_a_brace_range_of_what_are_no_digits_is_a_list_of_names(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"²\.\.3\.tar does not exist$"):
        open_source(f"{tmp_path}/{{²..3}}.tar", None, None)


def test_pictures_beside_their_metadata_table_are_a_tree(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    parquet_file(tmp_path / "metadata.parquet", pa.table({"url": ["words"]}))
    assert open_source(str(tmp_path), None, None).format == "tree"


def test_linked_shards_are_found_and_linked_folders_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shard(tmp_path / "elsewhere" / "1.tar")
    shard(tmp_path / "in" / "0.tar")
    (tmp_path / "in" / "1.tar").symlink_to("../elsewhere/1.tar")
    (tmp_path / "in" / "more").symlink_to("../elsewhere")
    (tmp_path / "in" / "loop.tar").symlink_to(".")
    source = open_source(str(tmp_path / "in"), None, None)
    assert (source.format, source.shards) == ("webdataset", ("0.tar", "1.tar"))
    assert caplog.messages == [
        "2 folders are not entered, being links or too deep, loop.tar first; give each as a source of its own"
    ]


@pytest.mark.parametrize("name", ["0.tar", "a/0.jpg"])
def test_what_is_hidden_is_counted_in_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for one in (name, ".hidden/1.tar", "a/.2.tar", "b/.3.jpg"):
        shard(tmp_path / one)
    open_source(str(tmp_path), None, None)
    line = "not scanned: 3 hidden files and folders, .hidden first; rename what belongs to the source"
    assert caplog.messages == [line]


def test_a_tar_that_is_a_pipe_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.tar")
    source = open_source(str(tmp_path), None, None)
    with pytest.raises(StorageError, match=r"^cannot read .*/0.tar: it is a pipe, socket or device, not a file$"):
        slices_of(source)


@pytest.mark.parametrize(
    ("given", "format_name", "line"),
    [
        ("in", "webdatset", 'unknown format "webdatset" (did you mean "webdataset"?); there are: webdataset, tree, '),
        ("nowhere", None, "nowhere does not exist"),
        ("in/*.tar", None, "in/*.tar does not exist or matches nothing"),
        ("in/{00..01}.zip", None, "in/00.zip does not exist"),
        ("empty", None, "no pictures found in empty (it is empty)"),
        ("in", "parquet", "in holds no parquet samples"),
        ("in/a.txt", None, "in/a.txt is no picture, tar or Parquet file; give a folder of pictures, or give --source"),
        ("in/*.jpg", None, "in/*.jpg: pictures are read by the folder; give the folder that holds them, or one "),
        ("in/a.*", None, "in/a.* is neither a folder nor files of one kind"),
        ("in/a.zip", "tree", "in/a.zip is not a folder; give one, or leave out --source-format tree"),
    ],
)
def test_what_is_nothing_is_one_line(tmp_path: Path, given: str, format_name: str | None, line: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "in" / "a.zip").write_bytes(b"PK")
    (tmp_path / "in" / "a.txt").write_bytes(b"words")
    (tmp_path / "in" / "b.jpg").write_bytes(jpeg(1))
    with pytest.raises(SourceError) as caught:
        open_source(f"{tmp_path}/{given}", format_name, None)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(line)
    assert "\n" not in str(caught.value)


def test_what_is_missing_from_a_store_is_named_with_its_protocol() -> None:
    with pytest.raises(SourceError, match=r"^memory://\S*nowhere/01\.tar does not exist$"):
        open_source("memory://nowhere/{01..02}.tar", None, None)


@pytest.mark.parametrize("category", ["", " "])
@pytest.mark.parametrize("format_name", ["webdataset", "parquet", "tree"])
def test_a_blank_category_is_refused(tmp_path: Path, format_name: str, category: str) -> None:
    shard(tmp_path / "0.tar")
    parquet_file(tmp_path / "0.parquet", pa.table({"image": [jpeg(1)]}))
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    line = "^--category is blank: name a column, field or member of the samples, or leave it out$"
    with pytest.raises(SourceError, match=line):
        open_source(str(tmp_path), format_name, category)
    assert open_source(str(tmp_path), format_name, None).category is None


class StumblingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A store in memory that refuses to read every file with "refused" in its path."""

    protocol = "stumbling"
    store: dict[str, object] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("stumbling://", "memory://")))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: object) -> bytes:
        if "refused" in path:
            raise PermissionError(13, "Permission denied")
        return bytes(super().cat_file(path, start, end, **options))


@pytest.fixture
def stumbling() -> Iterator[MemoryFileSystem]:
    fsspec.register_implementation("stumbling", StumblingFileSystem, clobber=True)
    store = fsspec.filesystem("stumbling")
    yield store
    store.store.clear()


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".parquet"])
def test_a_shard_that_the_store_refuses_is_a_storage_error_and_no_damage(
    tmp_path: Path, stumbling: MemoryFileSystem, suffix: str
) -> None:
    if suffix == ".parquet":
        parquet_file(tmp_path / "a", pa.table({"image": [jpeg(1)]}))
    else:
        (tmp_path / "a").write_bytes(tar_bytes([("a.jpg", jpeg(1))]))
    for name in ("good", "refused"):
        stumbling.pipe_file(f"/held/{name}{suffix}", (tmp_path / "a").read_bytes())
    source = open_source("stumbling://held", None, None)
    assert source.shards == (f"good{suffix}", f"refused{suffix}")
    (good,) = source.slices(f"good{suffix}")
    assert [s.encoded for s in source.read(good)] == [jpeg(1)]
    with pytest.raises(StorageError, match=r"refused.*permission denied"):
        list(source.slices(f"refused{suffix}"))


@pytest.mark.parametrize("suffix", [".tar", "/"])
def test_two_shards_whose_names_look_alike_are_refused(tmp_path: Path, suffix: str) -> None:
    for name in ("new\nline", "new\\nline", "other"):
        if suffix == "/":
            (tmp_path / name).mkdir()
            (tmp_path / name / "0.jpg").write_bytes(jpeg(1))
        else:
            shard(tmp_path / f"{name}.tar")
    message = r"^the source holds two shards that are both shown as new\\nline(\.tar)?; rename one of them$"
    with pytest.raises(SourceError, match=message):
        open_source(str(tmp_path), None, None)
    (tmp_path / f"new\nline{suffix.rstrip('/')}").rename(tmp_path / f"new\tline{suffix.rstrip('/')}")
    assert len(open_source(str(tmp_path), None, None).shards) == 3
