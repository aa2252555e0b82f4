"""A place on S3: files, listings, and a store that stumbles."""

import io
import os
import subprocess
import sys
from contextlib import suppress

import pytest
import s3fs

import ingest.storage.place
from ingest.errors import StorageError
from ingest.formats.shard import files_below
from ingest.storage.place import place
from tests.making import Patch
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, Fault, Proxy


def test_what_is_written_is_read_listed_and_fresh(store: Proxy) -> None:
    folder = place(f"s3://{BUCKET}/a")
    assert not folder.exists()
    assert folder.names() == []
    folder.at("one.txt").write(b"one")
    assert folder.names() == ["one.txt"]
    s3fs.S3FileSystem(skip_instance_cache=True).pipe_file(f"{BUCKET}/a/two.txt", b"two")  # as another process would
    folder.at("below", "three.txt").write(b"three")
    assert folder.names() == ["one.txt", "two.txt"]
    assert files_below(folder) == ["below/three.txt", "one.txt", "two.txt"]
    assert folder.matches(f"{folder.path}/t*.txt") == [f"{BUCKET}/a/two.txt"]
    assert folder.at("two.txt").read() == b"two"
    assert folder.is_dir()
    assert not folder.at("two.txt").is_dir()
    assert folder.at("two.txt").exists()
    assert not folder.at("four.txt").exists()


def test_an_object_whose_etag_says_what_it_holds_is_not_read_to_recognise_it(store: Proxy) -> None:
    file = place(f"s3://{BUCKET}/a/one.tar")
    file.write(bytes(100_000))
    before = file.version_mark()
    store.seen.clear()
    assert file.blocks_sha256() == ""
    assert not any(span for _, _, span in store.seen)
    file.write(bytes(99_999) + b"1")
    assert file.version_mark() != before


def test_the_mark_of_an_empty_folder_is_no_file(store: Proxy) -> None:
    s3fs.S3FileSystem().pipe_file(f"{BUCKET}/a/", b"")
    place(f"s3://{BUCKET}/a/one.txt").write(b"one")
    assert place(f"s3://{BUCKET}/a").names() == ["one.txt"]


def test_a_listing_of_many_pages_holds_every_name_once(store: Proxy, monkeypatch: Patch) -> None:
    """Also where the store stumbles between two pages: it goes on where it was."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    folder = place(f"s3://{BUCKET}/a")
    names = sorted(["a b+c%25&d.txt", "ü=1?.txt", *(f"{number:05d}.parquet" for number in range(8))])
    for name in names:
        folder.at(name).write(b"x")
    folder.at("00003", "below.txt").write(b"x")
    place(f"s3://{BUCKET}/ab.txt").write(b"x")
    store.seen.clear()
    store.first(2, 503, "GET", "continuation-token")
    assert folder.names() == names
    assert store.faults == 2
    pages = [path for _, path, _ in store.seen if "list-type=2" in path and "max-keys" not in path]
    assert len(pages) == len(set(pages)) + 2 == 4 + 2
    assert place(f"s3://{BUCKET}").names() == ["ab.txt"]


def test_a_created_file_is_there_whole_or_not_at_all(store: Proxy) -> None:
    target = place(f"s3://{BUCKET}/a/big.bin")
    content = os.urandom(13 * 2**20)
    with target.create() as file:
        file.write(content)
        assert not target.exists()
    assert target.read() == content
    with suppress(ZeroDivisionError), place(f"s3://{BUCKET}/a/none.bin").create() as file:
        file.write(bytes(1 // 0))
    assert place(f"s3://{BUCKET}/a").names() == ["big.bin"]


def test_a_missing_bucket_is_not_made(store: Proxy) -> None:
    with pytest.raises(StorageError, match=r"^cannot write nosuch/a: no such file or directory$"):
        place("s3://nosuch/a").write(b"x")
    assert not place("s3://nosuch").exists()


def test_a_stream_seeks_and_fetches_by_blocks(store: Proxy, monkeypatch: Patch) -> None:
    monkeypatch.setattr(ingest.storage.place, "BLOCK_BYTES", 1000)
    content = os.urandom(10_500)
    place(f"s3://{BUCKET}/file").write(content)
    store.seen.clear()
    with place(f"s3://{BUCKET}/file").open() as stream:
        assert stream.read(10) == content[:10]
        assert stream.read(500) == content[10:510]
        assert stream.seek(-100, io.SEEK_END) == 10_400
        assert stream.read() == content[10_400:]
        assert stream.read() == b""
        stream.seek(700)
        assert stream.read(5000) == content[700:5700]
        assert stream.seek(20_000) == 20_000
        assert stream.read(1) == b""
    spans = [span for verb, _, span in store.seen if verb == "GET"]
    assert spans[:2] == ["bytes=0-999", "bytes=10400-10499"]
    assert len(spans) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", [500, 502, 503, 429, "reset", "short"])
def test_a_store_that_stumbles_is_asked_again(store: Proxy, fault: Fault, monkeypatch: Patch) -> None:
    monkeypatch.setattr(ingest.storage.place, "BLOCK_BYTES", 1000)
    content = os.urandom(5000)
    file = place(f"s3://{BUCKET}/a/file")
    if fault != "short":
        store.first(3, fault, "PUT")
        file.write(content)
        assert store.faults == 3
        store.first(3, fault, "HEAD")
        assert file.exists()
        store.first(3, fault)
        assert place(f"s3://{BUCKET}/a").is_dir()
    else:
        file.write(content)
    store.first(3, fault, "GET", "list-type=2")
    assert place(f"s3://{BUCKET}/a").names() == ["file"]
    store.first(3, fault, "GET")
    assert file.read() == content
    store.faults = 0
    with file.open() as stream:
        assert stream.read(1500) == content[:1500]
        store.first(3, fault, ranged=True)
        assert stream.read() == content[1500:]
    assert store.faults == 3


@pytest.mark.slow
@pytest.mark.parametrize("fault", [500, "reset"])
def test_a_store_that_never_recovers_is_given_up_in_time(store: Proxy, fault: Fault, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0.3")
    # Its setting; between its usual five it waits longer each time.
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)
    file = place(f"s3://{BUCKET}/a/file")
    file.write(b"content")
    stream = file.open()
    store.first(10**6, fault)
    reason = "the store answered 500" if fault == 500 else r"\w[\w ]+"
    ended = f"{BUCKET}/a/file: {reason}; tried again without success$"
    for verb, call in [
        ("read", file.read),
        ("read", file.open),
        ("read", stream.read),
        ("reach", file.exists),
        ("reach", file.is_dir),
        ("reach", file.names),
        ("write", lambda: file.write(b"other")),
    ]:
        store.faults = 0
        with pytest.raises(StorageError, match=rf"^cannot {verb} {ended}"):
            call()
        # In 0.3 s there is time for 3 attempts with the waits between them, in the 60 s that are usual for 10 and more.
        # Of each s3fs makes many where the connection breaks (50 were counted).
        assert 1 <= store.faults <= (3 if fault == 500 else 100)


def test_what_will_not_pass_is_reported_at_once(store: Proxy) -> None:
    file = place(f"s3://{BUCKET}/a/file")
    with pytest.raises(FileNotFoundError):
        file.open()
    store.seen.clear()
    with pytest.raises(StorageError, match=r"^cannot read corpora/a/file: no such file or directory$"):
        file.read()
    assert len(store.seen) <= 2
    file.write(b"content")
    store.first(10**6, 403)
    for verb, call in [("read", file.read), ("write", lambda: file.write(b"")), ("reach", file.exists)]:
        store.seen.clear()
        with pytest.raises(StorageError, match=rf"^cannot {verb} corpora/a/file: permission denied$"):
            call()
        assert len(store.seen) == 1


def test_a_file_that_shrank_or_went_is_reported(store: Proxy, monkeypatch: Patch) -> None:
    monkeypatch.setattr(ingest.storage.place, "BLOCK_BYTES", 100)
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0")
    file = place(f"s3://{BUCKET}/file")
    file.write(bytes(1000))
    with file.open() as stream:
        stream.read(50)
        file.write(bytes(10))
        with pytest.raises(StorageError, match=r"^cannot read corpora/file: the store answered 416$"):
            stream.read()
        file.fs.rm(file.path)
        with pytest.raises(StorageError, match=r"^cannot read corpora/file: it was removed after it was opened$"):
            stream.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "args"),
    [("http://127.0.0.1:9", ["s3://corpora/a", "--run", "run"]), ("", ["jobs/demo/corpus", "--run", "s3://corpora/r"])],
)
def test_errors_show_no_credentials(store: Proxy, address: str, args: list[str]) -> None:
    """An address where nobody listens, and a store that forbids everything."""
    store.first(10**6, 403)
    settings = {"AWS_ENDPOINT_URL": address or store.address, "PRIVSIEVE_RETRY_S": "1"}
    command = [sys.executable, "-m", "jobs", "scan", *args, "--engine", "canned", "--source-format", "tree"]
    command += ["--executor", "inline", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings, check=False)
    assert done.returncode == (1 if address else 2)  # the one may work later
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("privsieve: cannot reach corpora/")
    assert ("permission denied" if not address else "cannot be reached") in done.stderr
    assert KEY_ID not in done.stderr
    assert SECRET not in done.stderr
