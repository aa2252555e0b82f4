"""The whole way with the real img2dataset on Ray; `make test-fetch`, since it installs an environment once."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from jobs.fetching.download import default_folder
from tests.jobs.fetch_host import MAX_BYTES, image_host, picture
from tests.making import Capture

pytestmark = pytest.mark.fetch

EXPECTED: dict[str, str | None] = {
    "/jpeg": None,
    "/png": None,
    "/svg": "not_an_image",
    "/moved": None,
    "/no-index-for-others": None,
    "/missing": "http_404",
    "/page": "not_an_image",
    "/cut": "connection",
    "/nothing": "empty",
    "/no-ai": "opted_out",
    "/no-index-for-us": "opted_out",
    "/reserved": "opted_out",
    "/huge": "too_large",
    "/endless": "too_large",
    "/liar": "too_large",
    "/circle": "redirect_loop",
    "/to-file": "not_http",
    "/silent": "timeout",
    "/trickle": "timeout",
    "/trickling-headers": "timeout",
    "/a b": "bad_url",
}
"""Path on the host -> why it gives no image, None where it does."""

ELSEWHERE: dict[str | None, str] = {
    "http://127.0.0.1:9/x": "connection_refused",
    "http://no-such-host.invalid/x": "unknown_host",
    "file:///etc/hostname": "not_http",
    "nonsense": "not_http",
    "": "no_url",
    None: "no_url",
}


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with image_host() as address:
        yield address


def _privsieve(*args: object) -> int:
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in args])
    assert isinstance(done.value.code, int)
    return done.value.code


def _metadata(path: Path, urls: list[str | None]) -> Path:
    captions = [f"picture {n}" for n in range(len(urls))]
    scores = [n / 100 for n in range(len(urls))]
    pq.write_table(pa.table({"URL": pa.array(urls, pa.string()), "TEXT": captions, "punsafe": scores}), path)
    return path


def test_every_url_ends_as_it_should_and_the_shards_scan(host: str, tmp_path: Path, capsys: Capture) -> None:
    expected = {f"{host}{path}": reason for path, reason in EXPECTED.items()} | ELSEWHERE
    source, out = _metadata(tmp_path / "part.parquet", list(expected)), tmp_path / "shards"
    options = ("--private-addresses", "--timeout", 1.5, "--max-bytes", MAX_BYTES, "--images-per-shard", 10)
    assert _privsieve("fetch", source, "--out", out, "--processes", 2, *options) == 0
    assert "27 URLs: 4 downloaded, 23 failed (" in capsys.readouterr().out

    rows = pq.read_table(out / "fetch.parquet").to_pylist()
    assert {row["url"]: row["reason"] for row in rows} == expected
    assert {row["status"] for row in rows if row["reason"] is None} == {"downloaded"}
    assert {row["status"] for row in rows if row["reason"] is not None} == {"failed"}

    members: dict[str, bytes] = {}
    for shard in sorted(out.glob("*.tar")):
        with tarfile.open(shard) as archive:
            members |= {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    assert members["000000.jpg"] == members["000003.jpg"] == picture("JPEG")
    assert members["000001.jpg"] == picture("PNG")
    assert members["000001.txt"] == b"picture 1"
    beside = json.loads(members["000001.json"])
    assert (beside["url"], beside["punsafe"]) == (f"{host}/png", 0.01)
    assert len(members) == 3 * 4

    assert _privsieve("scan", out, "--run", tmp_path / "run", "--engine", "canned") == 0
    output = capsys.readouterr().out
    assert "4 images in 3 of 3 shards: 4 scored, 0 quarantined" in output

    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    assert _privsieve("fetch", source, "--out", out, "--threads", 2, *options) == 0
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")} == before


def test_private_addresses_are_not_asked_by_default(host: str, tmp_path: Path) -> None:
    source = _metadata(tmp_path / "part.parquet", [f"{host}/jpeg", f"{host.replace('127.0.0.1', 'localhost')}/jpeg"])
    assert _privsieve("fetch", source, "--out", tmp_path / "shards", "--processes", 1) == 1
    rows = pq.read_table(tmp_path / "shards" / "fetch.parquet").to_pylist()
    assert [row["reason"] for row in rows] == ["private_address", "private_address"]


def test_a_killed_fetch_continues_and_leaves_no_process(host: str, tmp_path: Path) -> None:
    source, out = _metadata(tmp_path / "part.parquet", [f"{host}/late?{n}" for n in range(60)]), tmp_path / "shards"
    args = [str(a) for a in ("fetch", source, "--out", out, "--private-addresses", "--images-per-shard", 5)]
    args += ["--processes", "1", "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "jobs", *args], cwd=Path(__file__).parents[2])
    _wait_until(lambda: len(list(out.glob("*_stats.json"))) >= 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _wait_until(lambda: not _processes())
    finished = {path.name: path.read_bytes() for path in out.glob("*_stats.json")}
    assert 2 <= len(finished) < 12
    assert not (out / "fetch.parquet").exists()

    assert _privsieve(*args) == 0
    rows = pq.read_table(out / "fetch.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["downloaded"] * 60
    assert len({row["key"] for row in rows}) == 60
    assert all((out / name).read_bytes() == content for name, content in finished.items())


def test_a_failure_of_img2dataset_is_one_line(host: str, tmp_path: Path, capsys: Capture) -> None:
    source, out = _metadata(tmp_path / "part.parquet", [f"{host}/jpeg"]), tmp_path / "shards"
    args = ("fetch", source, "--out", out, "--private-addresses", "--processes", 1)
    assert _privsieve(*args) == 0
    capsys.readouterr()
    (out / "00000_stats.json").unlink()
    (out / "selected" / "00000.parquet").write_bytes(b"damaged")
    assert _privsieve(*args) == 1
    error = capsys.readouterr().err
    assert "img2dataset ended with code 1 (pyarrow.lib.ArrowInvalid); --verbose shows what it says" in error
    assert len(error.strip().splitlines()) == 1
    assert not _processes()


def test_a_fetch_whose_worker_was_killed_ends(host: str, tmp_path: Path) -> None:
    source, out = _metadata(tmp_path / "part.parquet", [f"{host}/late?{n}" for n in range(600)]), tmp_path / "shards"
    args = [str(a) for a in ("fetch", source, "--out", out, "--private-addresses", "--images-per-shard", 5)]
    args += ["--processes", "1", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs", *args], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True
    )
    _wait_until(lambda: len(list(out.glob("*_stats.json"))) >= 1)
    for pid, line in _processes().items():
        if "spawn_main" in line:
            os.kill(pid, signal.SIGKILL)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "img2dataset ended with code 1" in error
    assert not _processes()


def _processes() -> dict[int, str]:
    """Of img2dataset's environment: id -> command line."""
    lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # has ended meanwhile
    return {pid: line for pid, line in lines.items() if str(default_folder()) in line}


def _wait_until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < ends, "waited for two minutes"
        time.sleep(0.2)
