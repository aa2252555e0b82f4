"""The labels table: what is read and written, and that errors say where without repeating a user's cells."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import LabelsError, StorageError
from scoring.labels import label_files
from scoring.labels.label_files import LABELS_SCHEMA
from scoring.labels.table import (
    FOOTER_KEY,
    LabelsOrigin,
    attribute_values,
    read_labels,
    read_labels_and_origin,
    to_labels,
    write_labels,
)
from scoring.taxonomy import KEYS
from tests.making import Patch

SECRET = "Jane Roe, 12 Elm Street"
HASH = "ab" * 32
DAMAGED = "FILE: is a damaged Parquet file, or holds text that is not UTF-8; write it again"


def _csv(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def _refused(url: str) -> str:
    with pytest.raises((LabelsError, StorageError)) as refused:
        read_labels(url)
    message = str(refused.value)
    assert "\n" not in message
    assert SECRET not in message
    return message.replace(url, "FILE")


def test_what_is_written_is_read_again_with_its_origin(tmp_path: Path) -> None:
    labels = to_labels(
        {"key": ["a.jpg", "b.jpg"], "annotator": ["me", "me"], "private": [1, None], "nudity": [0.5, np.nan]}, 2
    )
    origin = LabelsOrigin("csv", "vispr 1", 2, {"a2_weight_approx": 3}, ("A note.",))
    write_labels(labels, str(tmp_path / "labels.parquet"), origin)
    read, found = read_labels_and_origin(str(tmp_path / "labels.parquet"))
    assert read.equals(labels)
    assert read.schema.equals(LABELS_SCHEMA)
    assert found == origin
    assert read["nudity"].to_pylist() == [0.5, None]
    assert [p.name for p in tmp_path.iterdir()] == ["labels.parquet"]


def test_csv_gives_the_same_rows_and_needs_no_annotator(tmp_path: Path) -> None:
    read = read_labels(_csv(tmp_path / "l.csv", "key,private,class,nudity,score\na.jpg,1,face,,0.25\nb.jpg,,,0.5,\n"))
    assert read["annotator"].to_pylist() == ["labels", "labels"]
    assert read["private"].to_pylist() == [1, None]
    assert read["class"].to_pylist() == ["face", None]
    assert read["score"].to_pylist() == [0.25, None]
    values = attribute_values(read)
    assert values.shape == (2, 22)
    assert np.isnan(values[0]).all()
    assert values[1, KEYS.index("nudity")] == 0.5


def test_hashes_in_capitals_name_the_same_picture(tmp_path: Path) -> None:
    read = read_labels(_csv(tmp_path / "l.csv", f"sha256,private\n{HASH.upper()},1\n"))
    assert read["sha256"].to_pylist() == [HASH]


def test_cells_that_a_spreadsheet_would_run_are_escaped_and_come_back(tmp_path: Path) -> None:
    keys = ["=1+1.jpg", "+a.jpg", "-b.jpg", "@c.jpg", "'=d.jpg", "'plain.jpg", "plain=.jpg"]
    labels = to_labels({"key": keys, "annotator": ["me"] * 7, "private": [1] * 7}, 7)
    write_labels(labels, str(tmp_path / "l.csv"), LabelsOrigin("csv"))
    lines = (tmp_path / "l.csv").read_text().splitlines()
    assert not [cell for line in lines for cell in line.replace('"', "").split(",") if cell.startswith(tuple("=+-@"))]
    assert read_labels(str(tmp_path / "l.csv")).equals(labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"key,nudity\na.jpg,1\nb.jpg,{SECRET[:8]}\n", 'FILE, line 3: the column "nudity" holds no number'),
        ("key,nudity\na.jpg,0.7\n", 'FILE, row 1: "nudity" is 0.7; allowed are 0, 0.5 and 1, or null'),
        ("key,private\na.jpg,1\nb.jpg,300\n", 'FILE, row 2: "private" is 300; allowed are 0 and 1, or null'),
        ("key,private\na.jpg,0.5\n", 'FILE, row 1: "private" is 0.5; allowed are 0 and 1, or null'),
        ("key,score\na.jpg,1.5\n", 'FILE, row 1: "score" is 1.5; scores go from 0 to 1'),
        ("key,score\na.jpg,inf\n", 'FILE, row 1: "score" is inf; scores go from 0 to 1'),
        (
            "key,nudty\na.jpg,1\n",
            'FILE: there is no label column "nudty" (did you mean "nudity"?); privsieve help labels lists the columns; '
            "remove the others",
        ),
        ("private\n1\n", "FILE: has neither the column sha256 nor key, one of which names the picture"),
        (
            "File,private,width\na.jpg,1,3\n",
            "FILE: has neither the column sha256 nor key, one of which names the picture; "
            'does "File"? Then call it key',
        ),
        ("key,private\n,1\n", "FILE, row 1: has neither sha256 nor key; each row needs one of them"),
        ("key,annotator\na.jpg,\n", 'FILE, row 1: "annotator" is empty; name one, such as "labels"'),
        ("sha256,private\nabc,1\n", 'FILE, row 1: "sha256" is not 64 lower-case hexadecimal digits'),
        ("key,key\na,b\n", "FILE: a column name occurs twice in the first line; keep one"),
        (
            f"key,private\na.jpg,1\n{SECRET.replace(',', ';')},1,2\n",
            "FILE, line 3: has 3 cells instead of 2; check quotation marks and commas",
        ),
        ("", "FILE: cannot be read as CSV in UTF-8 with a line of column names"),
        (
            "key,private\na.jpg,1\na.jpg,0\n",
            'FILE: annotator "labels" labels a.jpg 2 times (1 such picture); keep one row of each',
        ),
    ],
)
def test_a_wrong_csv_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    assert _refused(_csv(tmp_path / "l.csv", text)) == message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(b"key,private\n\xff\xfe.jpg,1\n")
    assert _refused(str(tmp_path / "l.csv")) == "FILE: cannot be read as CSV in UTF-8 with a line of column names"


def test_a_damaged_parquet_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "l.parquet").write_bytes(b"PAR1" + b"\0" * 100)
    assert _refused(str(tmp_path / "l.parquet")) == DAMAGED


def test_parquet_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    url = str(tmp_path / "l.parquet")
    pq.write_table(pa.table({"key": ["a"], "nudity": [[1.0]]}), url)
    assert _refused(url) == "FILE: a column holds lists or structs; each must hold one text or number a row"
    pq.write_table(pa.table({"key": ["a"], "nudity": [SECRET]}), url)
    assert _refused(url) == 'FILE: the column "nudity" does not hold numbers'
    pq.write_table(pa.table({"key": [SECRET.encode()], "nudity": [1.0]}), url)
    assert read_labels(url)["key"].to_pylist() == [SECRET]


def test_a_small_file_that_claims_much_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: Patch) -> None:
    url = str(tmp_path / "l.parquet")
    pq.write_table(pa.table({"key": ["x" * 10_000] * 1000}), url)
    assert Path(url).stat().st_size < 100_000
    assert _refused(url) == 'FILE: "key" has texts of more than 8,192 characters'
    monkeypatch.setattr(label_files, "MAX_ROWS", 100)
    assert _refused(url).startswith("FILE: claims 1,000 rows")


def test_a_damaged_footer_is_one_line(tmp_path: Path) -> None:
    labels = to_labels({"key": ["a"], "annotator": ["me"]}, 1)
    for stored in (b"{", json.dumps({"format": 1, "source": "csv"}).encode()):
        pq.write_table(labels.replace_schema_metadata({FOOTER_KEY: stored}), tmp_path / "l.parquet")
        assert "footer privsieve.labels is damaged" in _refused(str(tmp_path / "l.parquet"))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()], ids=str)
@pytest.mark.parametrize("column", ["key", "class"])
def test_text_that_is_not_utf8_is_one_line(tmp_path: Path, kind: pa.DataType, column: str) -> None:
    invalid = pa.array(
        [b"pass\xff\xfeport of somebody"], pa.large_binary() if kind == pa.large_string() else pa.binary()
    )
    if kind == pa.string_view():
        invalid = pa.Array.from_buffers(kind, 1, invalid.cast(pa.binary_view()).buffers())
    elif kind != pa.binary():
        invalid = pa.Array.from_buffers(kind, 1, invalid.buffers())
    pq.write_table(pa.table({"key": ["a"], "class": ["b"]} | {column: invalid}), tmp_path / "l.parquet")
    assert _refused(str(tmp_path / "l.parquet")) in (DAMAGED, f'FILE: the column "{column}" does not hold text')


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for url in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(StorageError, match=f"^{url}: it is a pipe, socket or device, not a file"):
            read_labels(url)


def test_text_that_reads_null_or_nan_stays_text_and_numbers_do_not(tmp_path: Path) -> None:
    cells = ["null", "NULL", "nan", "NaN"]
    lines = "".join(f"{cell},{cell},{cell},{cell}\n" for cell in cells)
    read = read_labels(_csv(tmp_path / "l.csv", f"key,class,private,nudity\n{lines}a.jpg,,,\n"))
    assert read["key"].to_pylist() == [*cells, "a.jpg"]
    assert read["class"].to_pylist() == [*cells, None]
    assert read["private"].null_count == read["nudity"].null_count == 5


@pytest.mark.parametrize("text", ["key;private;score\na.jpg;1;0,5\n", "key\tprivate\na.jpg\t1\n"])
def test_other_separators_than_commas_are_named(tmp_path: Path, text: str) -> None:
    message = "FILE: its columns are separated by semicolons or tabs; separate columns with commas"
    assert _refused(_csv(tmp_path / "l.csv", text)) == message
