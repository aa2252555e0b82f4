"""Places without a network: local files, URLs that are refused, and which errors are tried again."""

import errno
import importlib
import socket
import sys
from pathlib import Path

import pytest

from ingest.errors import StorageError
from ingest.formats.shard import files_below
from ingest.machine import install_command
from ingest.storage import retries
from ingest.storage.place import place
from ingest.storage.retries import may_pass, reason_of, retried, storage_error
from tests.making import Patch


def test_local_files_are_whole_and_listed(tmp_path: Path) -> None:
    folder = place(str(tmp_path / "new"))
    assert not folder.exists()
    assert folder.names() == []
    folder.at("b.txt").write(b"b")
    folder.at("a.txt").write(b"a")
    folder.at("below", "c.txt").write(b"c")
    assert folder.names() == ["a.txt", "b.txt"]
    assert files_below(folder) == ["a.txt", "b.txt", "below/c.txt"]
    assert [Path(path).name for path in folder.matches(f"{folder.path}/*.txt")] == ["a.txt", "b.txt"]
    assert folder.at("a.txt").read() == b"a"
    assert folder.at("below").is_dir()


def test_a_path_without_end_is_refused_at_once() -> None:
    with pytest.raises(StorageError, match=r"^a path or URL of 1,000,003 characters was given; give one of at most"):
        place("s3:" + "?" * 1_000_000)


def test_local_errors_are_one_line_and_are_not_tried_again(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 3600.0)
    with pytest.raises(StorageError, match=r"^cannot read \S+/none: no such file or directory$"):
        place(str(tmp_path / "none")).read()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"^cannot write \S+/file/a: (not a directory|file exists)$"):
        place(str(tmp_path / "file" / "a")).write(b"")


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket",
        "s3://key:secret@bucket/a/{0..9}.tar",
        "S3://key:sec/ret@bucket/a",
        "s3://:secret@bucket",
        "https://me:secret@host:8080/a.tar",
        "simplecache::s3://key:secret@bucket/a",
    ],
)
def test_a_url_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(StorageError, match=r"give credentials by the environment") as refused:
        place(url)
    assert "secret" not in str(refused.value)
    assert "bucket" not in str(refused.value)


@pytest.mark.parametrize("url", ["memory://a/b:c@d", "memory://host:80/a@b.tar", "a:b@c/d.tar", "/tmp/a:b@c"])
def test_colons_and_ats_in_names_are_no_password(url: str) -> None:
    assert place(url).name in ("b:c@d", "a@b.tar", "d.tar", "a:b@c")


@pytest.mark.parametrize("name", ["a::b", "a::B", "file::s3"])
@pytest.mark.parametrize("protocol", ["", "file://", "local://"])
def test_a_local_name_with_two_colons_is_no_chain_of_urls(tmp_path: Path, protocol: str, name: str) -> None:
    (tmp_path / name).mkdir()
    assert place(f"{protocol}{tmp_path}/{name}").path == f"{tmp_path}/{name}"


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket/a", "s3fs", "s3"),
        ("gs://bucket/a", "gcsfs", "gs"),
        ("az://container/a", "adlfs", "az"),
        ("abfs://container/a", "adlfs", "az"),
        ("hf://datasets/me/a", "huggingface_hub", "hf"),
    ],
)
def test_a_missing_driver_names_its_extra(url: str, package: str, extra: str, monkeypatch: Patch) -> None:
    protocol = url.partition(":")[0]
    monkeypatch.setitem(sys.modules, package, None)  # Python's own way to say: not there
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, protocol, raising=False)
    with pytest.raises(StorageError) as error:
        place(url)
    assert str(error.value) == (
        f"cannot reach {url}: the driver for {protocol}:// is not installed; {install_command(extra)}"
    )


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(StorageError, match=r"^cannot reach nosuch://a: there is no protocol nosuch://$"):
        place("nosuch://a")


@pytest.mark.parametrize(
    ("error", "passes", "reason"),
    [
        (ConnectionResetError(errno.ECONNRESET, "key=secret"), True, "connection reset by peer"),
        (TimeoutError(), True, "TimeoutError"),
        (OSError(121, "secret"), True, "remote i/o error"),
        (OSError(errno.EBUSY, "secret"), True, "device or resource busy"),
        (FileNotFoundError("secret"), False, "no such file or directory"),
        (PermissionError("secret"), False, "permission denied"),
        (OSError(errno.ENOSPC, "secret"), False, "no space left on device"),
        (OSError("secret"), False, "OSError"),
        (socket.gaierror(socket.EAI_NONAME, "secret"), False, "no machine of that name is known"),
    ],
)
def test_what_passes_by_itself_and_what_does_not(error: OSError, passes: bool, reason: str) -> None:
    assert may_pass(error) is passes
    assert reason_of(error) == reason
    told = storage_error("cannot read s3://bucket/shard.tar", error)
    assert (str(told), told.exit_code) == (f"cannot read s3://bucket/shard.tar: {reason}", 1 if passes else 2)


def test_attempts_end_with_the_bound(monkeypatch: Patch) -> None:
    calls = []

    def fail() -> None:
        calls.append(0)
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0")
    with pytest.raises(ConnectionResetError):
        retried(fail)
    assert len(calls) == 1
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0.5")
    with pytest.raises(ConnectionResetError):
        retried(fail)
    assert 3 <= len(calls) <= 5


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_bound_that_is_no_number_of_seconds_is_refused(text: str, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", text)
    with pytest.raises(StorageError, match=rf'^PRIVSIEVE_RETRY_S is "{text}"; give seconds from 0 to 86400$'):
        retried(lambda: 1)
