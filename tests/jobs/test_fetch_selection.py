"""Fetch up to the download: which rows of the metadata are selected."""

import csv
import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from scoring.sql.url_tables import normalised_names
from tests.jobs.fetch_host import CAPTIONS, LAION, URLS, select
from tests.jobs.made import privsieve
from tests.making import Capture


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (
            ["SAMPLE_ID", "URL", "TEXT", "HEIGHT", "WIDTH", "LICENSE", "NSFW", "similarity"],
            ["source_key", "url", "caption", "source_height", "source_width", "license", "nsfw", "similarity"],
        ),
        (
            ["url", "caption", "width", "height", "similarity", "hash", "punsafe", "pwatermark"],
            ["url", "caption", "source_width", "source_height", "similarity", "hash", "punsafe", "pwatermark"],
        ),
        (
            ["uid", "url", "text", "original_width", "original_height", "clip_b32_similarity_score", "sha256"],
            [
                *("source_key", "url", "caption", "source_width", "source_height"),
                *("clip_b32_similarity_score", "source_sha256"),
            ],
        ),
        (
            ["id", "url", "text", "width", "num_faces", "watermark_score"],
            ["source_key", "url", "caption", "source_width", "num_faces", "watermark_score"],
        ),
        (["url", "txt", "Caption", "key", "status"], ["url", "txt", "caption", "source_key", "source_status"]),
        (["width", "original_width", "url"], ["source_width_2", "source_width", "url"]),
    ],
    ids=["laion-400m", "re-laion", "datacomp", "coyo", "fetched before", "two widths"],
)
def test_columns_are_found_under_the_names_that_data_sets_use(names: list[str], written: list[str]) -> None:
    assert list(normalised_names(names).values()) == written


def test_selected_rows_lie_beside_the_shards(tmp_path: Path, foreign: Path) -> None:
    pq.write_table(LAION, tmp_path / "part.parquet")
    where = ("--where", "WIDTH >= 1 AND length(text) > 0 AND punsafe < 0.9")
    rows = select(tmp_path / "part.parquet", tmp_path / "out", foreign, "--images-per-shard", 2, *where)
    assert rows.column_names == ["url", "caption", "source_width", "punsafe"]
    assert rows["url"].to_pylist() == URLS[1:4]
    record = json.loads((tmp_path / "out" / "selected" / "fetch.json").read_text())
    assert (record["num_rows"], record["settings"]["where"]) == (3, where[1])


def test_a_folder_of_csv_files_and_a_limit(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "part [1]").mkdir()
    for number, rows in enumerate((LAION.slice(0, 4), LAION.slice(4))):
        pyarrow.csv.write_csv(rows, tmp_path / "part [1]" / f"{number}.csv")
    assert select(tmp_path / "part [1]", tmp_path / "a", foreign)["url"].to_pylist() == URLS
    assert select(tmp_path / "part [1]", tmp_path / "b", foreign, "--limit", 5)["url"].to_pylist() == URLS[:5]
    glob = tmp_path / "part [[]1]" / "*.csv"
    assert select(glob, tmp_path / "c", foreign)["caption"].to_pylist() == CAPTIONS


def test_a_table_without_header_is_known_by_its_urls(tmp_path: Path, foreign: Path) -> None:
    lines = "".join(f"a \"{n}' dog\t{url}\n" for n, url in enumerate(URLS))
    (tmp_path / "cc3m.tsv").write_text(lines)
    rows = select(tmp_path / "cc3m.tsv", tmp_path / "out", foreign)
    assert rows["url"].to_pylist() == URLS
    assert rows["caption"].to_pylist() == [f"a \"{n}' dog" for n in range(7)]


@pytest.mark.parametrize("name", ["pandas.tsv", "pandas.csv"])
def test_captions_with_line_breaks_and_quotation_marks_as_pandas_writes_them(
    tmp_path: Path, foreign: Path, name: str
) -> None:
    captions = ["two\nlines", 'a "quoted" word', "tab\there", "plain", '"', "", "a, b"]
    with (tmp_path / name).open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if name.endswith("tsv") else ",", lineterminator="\n")
        writer.writerows([("url", "caption"), *zip(URLS, captions, strict=True)])
    rows = select(tmp_path / name, tmp_path / "out", foreign)
    assert rows["url"].to_pylist() == URLS
    assert [caption or "" for caption in rows["caption"].to_pylist()] == captions


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["URL,TEXT", *(f"{url},a dog" for url in URLS), f"{URLS[0]},a cat, on a mat"], "line 9 has another number of"),
        (["URL,TEXT", f"{URLS[0]},a dog", f"{URLS[1]},a cat, on a mat", URLS[2]], "line 3 has another number of"),
        ([*(f"{url},a dog" for url in URLS), f"{URLS[0]},a cat, on a mat"], "line 8 has another number of"),
        (["number,TEXT", "1,a dog", "2,a cat, on a mat"], "line 3 has another number of"),
        (["my list", "URL,TEXT", *(f"{url},a dog" for url in URLS)], "line 2 has another number of"),
        (["", "URL,TEXT", *(f"{url},a dog" for url in URLS)], " begins with an empty line"),
    ],
)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_line_with_another_number_of_columns_is_an_error_of_the_file(
    tmp_path: Path, foreign: Path, capsys: Capture, lines: list[str], fault: str, separator: str
) -> None:
    table = tmp_path / ("ragged.csv" if separator == "," else "ragged.tsv")
    table.write_text("".join(f"{line.replace(',', separator)}\n" for line in lines))
    select(table, tmp_path / "out", foreign)
    error = capsys.readouterr().err
    assert f"{table}" in error
    assert fault in error
    assert "a mat" not in error
    assert not (tmp_path / "out").exists()


def test_metadata_behind_an_fsspec_url(tmp_path: Path, foreign: Path) -> None:
    with fsspec.open("memory://crawl/part.parquet", "wb") as file:
        pq.write_table(LAION, file)
    assert select("memory://crawl", tmp_path / "out", foreign)["url"].to_pylist() == URLS


def test_a_wrong_selection_into_a_store_leaves_nothing_there(tmp_path: Path, foreign: Path, capsys: Capture) -> None:
    pq.write_table(LAION, tmp_path / "part.parquet")
    args = ("fetch", tmp_path / "part.parquet", "--out", "memory://fetch-test/out", "--environment", foreign)
    memory = fsspec.filesystem("memory")
    assert privsieve(*args, "--where", "punsafe > 3") == 2
    assert "nothing to fetch" in capsys.readouterr().err
    assert memory.find("/fetch-test") == []
    assert privsieve(*args) == 2
    assert "was not made by privsieve" in capsys.readouterr().err
    found = memory.find("/fetch-test")
    memory.rm("/fetch-test", recursive=True)
    assert found == [f"/fetch-test/out/selected/{name}" for name in ("00000.parquet", "fetch.json")]


def test_columns_that_json_cannot_hold_become_text(tmp_path: Path, foreign: Path) -> None:
    taken = pa.array([1_600_000_000] * 7, pa.timestamp("s"))
    faces = pa.array([[[0.1, 0.2]]] * 7)
    odd = LAION.append_column("taken", taken).append_column("faces", faces).append_column("raw", pa.array([b"\0"] * 7))
    pq.write_table(odd, tmp_path / "part.parquet")
    rows = select(tmp_path / "part.parquet", tmp_path / "out", foreign)
    assert rows["taken"][0].as_py() == "2020-09-13 12:26:40"
    assert rows["faces"][0].as_py() == [[0.1, 0.2]]
    assert rows["raw"].type == pa.string()
