"""A release as a list of URLs: the rows of the table that the pictures were downloaded from."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.sample import url_sha256_of
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import with_policy
from tests.making import Folders

URL = "https://host{}.example.org/{}.jpg"
BY_KEY = (
    "name: by-key\ndefault: keep\nquarantined: drop\nrules:\n"
    "  - {name: second, when: \"key = '1'\", then: drop, reason: r}\n"
    "  - {name: third, when: \"key = '2'\", then: flag, reason: r}\n"
)


def url(number: int) -> str:
    return URL.format(number, number)


@pytest.fixture(scope="module")
def made(tmp_path_factory: Folders) -> Path:
    """Pictures 0 to 3, of which 3 has the URL of 1; a table of the URLs 0 to 2, twice the first, and two dead ones."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "tars").mkdir()
    members: dict[str, bytes] = {}
    for number in range(5):
        members |= {f"{number}.jpg": jpeg(40 * number)}
        members |= {f"{number}.json": json.dumps({"url": url({3: 1}.get(number, number))}).encode()}
    tar(folder / "tars" / "0.tar", members)
    table = {
        "URL": [url(0), f" {url(1)}", url(2), url(0), url(7), url(8), None],
        "TEXT": ["a", "call 555-010-4477", "c", "d", "e", "f", "g"],
        "status": ["success"] * 4 + ["failed_to_download", "success", "failed_to_download"],
        "thumbnail": [b"\xff\xd8"] * 7,
    }
    pq.write_table(pa.table(table), folder / "table.parquet")
    scan_in_process(folder / "tars", folder / "run")
    return folder


def released(run: Path, table: Path, out: Path) -> list[dict[str, object]]:
    options = ("--policy", with_policy(out.parent, BY_KEY), "--urls", table, "--out", out, "--quiet")
    assert privsieve("filter", run, *options) == 0
    assert privsieve("release", "verify", out) == 0
    rows: list[dict[str, object]] = pq.read_table(out / "urls" / "00000.parquet").to_pylist()
    return rows


def test_a_table_with_odd_columns_is_read(made: Path, tmp_path: Path) -> None:
    table = {
        "url": pa.array([url(0).encode(), url(1).encode()]),
        "status": [200, 404],
        "privsieve_url_sha256": [url_sha256_of(url(1)), url_sha256_of(url(0))],
        "pixels": pa.array([[1], [2]], pa.list_(pa.uint8())),
    }
    pq.write_table(pa.table(table), tmp_path / "odd.parquet")
    rows = released(made / "run", tmp_path / "odd.parquet", tmp_path / "list")
    assert [row["url"] for row in rows] == [url(0)]
    assert {*rows[0]} == {"url", "status", "privsieve_action", "privsieve_sha256"}


def test_a_row_without_a_picture_is_not_judged(tmp_path: Path) -> None:
    pictures = pa.table({"image": [jpeg(0), None, b"no picture"], "url": [url(0), url(1), url(2)]})
    (tmp_path / "source").mkdir()
    pq.write_table(pictures, tmp_path / "source" / "0.parquet")
    pq.write_table(pictures.select(["url"]), tmp_path / "table.parquet")
    scan_in_process(tmp_path / "source", tmp_path / "run")
    rows = released(tmp_path / "run", tmp_path / "table.parquet", tmp_path / "list")
    assert [(row["url"], row["privsieve_action"]) for row in rows] == [(url(0), "keep")]
