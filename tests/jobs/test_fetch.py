"""Fetch from the download on: what became of each URL."""

import ast
import io
import json
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import EngineError
from jobs.fetching.download import PROGRAM, FetchResources
from jobs.fetching.fetching import FetchRequest, run_fetch
from jobs.fetching.outcome import REASONS
from tests.jobs.fetch_host import LAION, URLS, picture, select, selected_rows
from tests.jobs.made import privsieve
from tests.making import Capture, Patch

OUTCOMES = (
    None,
    "HTTP Error 404: a page that names Jane Doe",
    "<urlopen error timed out>",
    None,
    "Use of image disallowed by X-Robots-Tag directive",
    "refused: too_large",
    "something new",
)
"""What img2dataset says of each of the seven URLs, None for success."""


def _as_img2dataset_leaves_it(out: Path, shard: str, outcomes: tuple[str | None, ...], num_rows: int) -> None:
    """The three files of one shard, in the layout of img2dataset 1.47."""
    first = int(shard) * 4
    kept = [
        row
        | {"key": f"{shard}{place}", "status": "failed_to_download" if error else "success", "error_message": error}
        | dict.fromkeys(("width", "height", "original_width", "original_height"))
        | {"sha256": None if error else "0" * 64}
        for place, (row, error) in enumerate(
            list(zip(selected_rows(out).to_pylist(), outcomes, strict=True))[first : first + 4]
        )
    ]
    pq.write_table(pa.Table.from_pylist(kept[:num_rows]), out / f"{shard}.parquet")
    with tarfile.open(out / f"{shard}.tar", "w") as archive:
        for row in kept:
            members = {"jpg": picture("JPEG"), "txt": b"x", "json": json.dumps(row).encode()}
            for extension, content in members.items() if row["status"] == "success" else ():
                info = tarfile.TarInfo(f"{row['key']}.{extension}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    (out / f"{shard}_stats.json").write_text(json.dumps({"count": len(kept), "status_dict": {}}))


@pytest.fixture
def downloaded(tmp_path: Path, foreign: Path) -> tuple[object, ...]:
    """The command whose images are all downloaded already, in two shards of 4 and 3."""
    pq.write_table(LAION, tmp_path / "part.parquet")
    select(tmp_path / "part.parquet", tmp_path / "out", foreign, "--images-per-shard", 4)
    for shard in ("00000", "00001"):
        _as_img2dataset_leaves_it(tmp_path / "out", shard, OUTCOMES, 4)
    return "fetch", tmp_path / "part.parquet", "--out", tmp_path / "out", "--images-per-shard", 4


def test_every_url_is_a_row_with_a_kind_of_failure_and_no_foreign_text(
    downloaded: tuple[object, ...], tmp_path: Path, capsys: Capture
) -> None:
    assert privsieve(*downloaded) == 0
    output = capsys.readouterr().out
    assert "7 URLs: 2 downloaded, 5 failed (" in output
    table = pq.read_table(tmp_path / "out" / "fetch.parquet")
    assert table.column_names == [
        *("key", "url", "caption", "source_width", "punsafe"),
        *("shard", "status", "reason", "sha256"),
    ]
    rows = table.to_pylist()
    assert [(r["key"], r["shard"], r["status"], r["reason"]) for r in rows] == [
        ("000000", "00000.tar", "downloaded", None),
        ("000001", "00000.tar", "failed", "http_404"),
        ("000002", "00000.tar", "failed", "timeout"),
        ("000003", "00000.tar", "downloaded", None),
        ("000010", "00001.tar", "failed", "opted_out"),
        ("000011", "00001.tar", "failed", "too_large"),
        ("000012", "00001.tar", "failed", "other"),
    ]
    assert [r["url"] for r in rows] == URLS
    assert "Jane" not in f"{rows}{output}"


def test_urls_that_failed_are_the_metadata_of_another_fetch(
    downloaded: tuple[object, ...], tmp_path: Path, foreign: Path
) -> None:
    assert privsieve(*downloaded) == 0
    where = ("--where", "reason IN ('timeout', 'other') OR reason = 'http_503'")
    rows = select(tmp_path / "out" / "fetch.parquet", tmp_path / "again", foreign, *where)
    assert [(row["url"], row["caption"], row["source_key"]) for row in rows.to_pylist()] == [
        (URLS[2], "a card game", "000002"),
        (URLS[6], "toy cars and dolls", "000012"),
    ]


def test_nothing_is_installed_against_the_answer(tmp_path: Path) -> None:
    pq.write_table(LAION, tmp_path / "part.parquet")
    request = FetchRequest(str(tmp_path / "part.parquet"), str(tmp_path / "out"))
    asked = list[str]()

    def refuse(what: str) -> bool:
        asked.append(what)
        return False

    with pytest.raises(EngineError, match="nothing is downloaded without img2dataset"):
        run_fetch(request, FetchResources(environment=tmp_path / "e"), may_install=refuse)
    assert "about 0.8 GB in" in asked[0]
    assert not (tmp_path / "e").exists()


def test_a_function_returns_what_became_of_the_urls(
    downloaded: tuple[object, ...], tmp_path: Path, capsys: Capture
) -> None:
    capsys.readouterr()
    request = FetchRequest(str(tmp_path / "part.parquet"), str(tmp_path / "out"), images_per_shard=4)
    found = run_fetch(request)
    assert (found.num_urls, found.num_downloaded) == (7, 2)
    assert found.failures == {"http_404": 1, "timeout": 1, "opted_out": 1, "too_large": 1, "other": 1}
    assert capsys.readouterr() == ("", "")


def test_the_program_of_the_other_environment_lies_where_it_is_started_from() -> None:
    ast.parse(PROGRAM.read_text())


def test_a_shard_whose_rows_are_fewer_than_announced_is_fetched_again(
    downloaded: tuple[object, ...], tmp_path: Path, foreign: Path, capsys: Capture
) -> None:
    assert privsieve(*downloaded) == 0
    _as_img2dataset_leaves_it(tmp_path / "out", "00001", OUTCOMES, 2)
    assert privsieve(*downloaded, "--environment", foreign) == 2
    assert "was not made by privsieve" in capsys.readouterr().err
    assert not (tmp_path / "out" / "00001_stats.json").exists()
    assert (tmp_path / "out" / "00000_stats.json").exists()
    assert not (tmp_path / "out" / "fetch.parquet").exists()


def test_other_settings_into_the_same_folder_are_refused(downloaded: tuple[object, ...], capsys: Capture) -> None:
    assert privsieve(*downloaded, "--limit", 3, "--max-bytes", 1000) == 2
    error = capsys.readouterr().err
    assert "limit was not set, now 3" in error
    assert "max_bytes was 20000000, now 1000" in error
    assert privsieve(*downloaded, "--threads", 2, "--quiet") == 0


def test_a_second_fetch_leaves_alone_what_the_first_selects(tmp_path: Path, foreign: Path, capsys: Capture) -> None:
    pq.write_table(LAION, tmp_path / "part.parquet")
    selected = tmp_path / "out" / "selected"
    selected.mkdir(parents=True)
    held = tmp_path / "out" / "fetch.lease"
    held.write_text(json.dumps({"id": "x", "host": "elsewhere", "pid": 7, "renewed": time.time()}))
    (selected / "00000.parquet").write_bytes(b"being written")
    args = ("fetch", tmp_path / "part.parquet", "--out", tmp_path / "out", "--where", "punsafe > 3")
    assert privsieve(*args) == 2
    assert "is being worked on by process 7 on elsewhere" in capsys.readouterr().err
    assert [path.name for path in selected.iterdir()] == ["00000.parquet"]
    held.unlink()
    (selected / "00007.parquet").write_bytes(b"of a longer selection that was killed")
    assert select(tmp_path / "part.parquet", tmp_path / "out", foreign).num_rows == 7
    assert sorted(path.name for path in selected.iterdir()) == ["00000.parquet", "fetch.json"]


def test_an_environment_that_cannot_be_made_is_one_line_and_is_tried_again(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    python, folder = tmp_path / "python", tmp_path / "environment"
    python.write_text('#!/bin/sh\necho "no module named $3"\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr("jobs.fetching.download.sys", SimpleNamespace(executable=python))
    pq.write_table(LAION, tmp_path / "part.parquet")
    for number in range(1, 3):
        args = ("fetch", tmp_path / "part.parquet", "--out", tmp_path / "out", "--environment", folder)
        assert privsieve(*args) == 2
        _, failed = capsys.readouterr().err.strip().splitlines()
        assert f"-m venv {folder} failed; {folder / 'pip.log'} says why" in failed
        assert (folder / "pip.log").read_text() == "no module named venv\n" * number


def test_what_was_fetched_scans_without_a_word(downloaded: tuple[object, ...], tmp_path: Path, capsys: Capture) -> None:
    assert privsieve(*downloaded) == 0
    assert privsieve("scan", tmp_path / "out", "--run", tmp_path / "run", "--engine", "canned") == 0
    assert "2 images in 2 of 2 shards: 2 scored, 0 quarantined" in capsys.readouterr().out


def test_the_page_lists_every_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fetch.md").read_text()
    assert [reason for reason in REASONS if f"| `{reason}" not in page] == []
