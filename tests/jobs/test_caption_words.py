"""Categories from words of captions, from nested JSON fields, and the domain of each picture's URL."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.categories import read_keyword_list
from ingest.errors import LabelsError
from tests.ingest.made import parquet_file
from tests.jobs.made import jpeg, privsieve, rows, tar

WORDS = "category,word\ntravel,passport\ntravel,boarding pass\nfamily,child\nfamily,Kinder\n"


def words_file(folder: Path, text: str = WORDS) -> Path:
    (folder / "words.csv").write_text(text)
    return folder / "words.csv"


def captioned(folder: Path) -> Path:
    beside = [
        {"caption": "My PASSPORT.", "url": "https://img.example.com/a.jpg", "meta": {"licence": {"kind": "cc-by"}}},
        {"caption": "a boarding\n pass and a child", "url": "https://cdn.example.com/b.jpg", "meta": {"licence": 1}},
        {"caption": "childhood passports", "url": "https://192.0.2.1/c.jpg"},
        {"caption": "kinder, playing", "url": "https://other.example.co.uk/d.jpg", "meta": "none"},
        {"meta": {"licence": {"kind": "cc0"}}},
    ]
    members: dict[str, bytes] = {}
    for number, fields in enumerate(beside):
        members |= {f"{number}.jpg": jpeg(number + 1), f"{number}.json": json.dumps(fields).encode()}
    tar(folder / "0.tar", members)
    return folder / "0.tar"


def test_the_first_category_of_which_the_caption_holds_a_word_is_taken(tmp_path: Path) -> None:
    words = words_file(tmp_path)
    assert (
        privsieve(
            "scan", captioned(tmp_path), "--run", tmp_path / "run", "--engine", "canned", "--caption-words", words
        )
        == 0
    )
    assert [row["category"] for row in rows(tmp_path / "run")] == ["travel", "travel", None, "family", None]


def test_a_parquet_corpus_has_categories_by_captions_too_and_can_be_drawn_by_them(tmp_path: Path) -> None:
    captions = ["a passport", "a dog", "a child", None, "passport and child", "child"]
    parquet_file(tmp_path / "a.parquet", pa.table({"jpg": [jpeg(n) for n in range(1, 7)], "caption": captions}))
    sampled = ["--sample", 1, "--per-category", "--caption-words", words_file(tmp_path)]
    assert privsieve("scan", tmp_path / "a.parquet", "--run", tmp_path / "run", "--engine", "canned", *sampled) == 0
    assert sorted(str(row["category"]) for row in rows(tmp_path / "run")) == ["family", "travel"]


def test_a_run_is_not_continued_with_other_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scan = ["scan", captioned(tmp_path), "--run", tmp_path / "run", "--engine", "canned", "--caption-words"]
    assert privsieve(*scan, words_file(tmp_path)) == 0
    assert privsieve(*scan, words_file(tmp_path, "pets,dog\n")) == 2
    assert "caption_words was" in capfd.readouterr().err


def test_what_gives_the_category_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scan = ["scan", captioned(tmp_path), "--run", tmp_path / "run", "--engine", "canned"]
    assert privsieve(*scan, "--caption-words", words_file(tmp_path), "--category", "meta") == 2
    assert "--category and --caption-words exclude each other" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "names no word"),
        (b"travel\n", "line 1: a category and a word are expected"),
        (b"travel,passport,visa\n", "line 1: a category and a word are expected"),
        (b"travel,passport\nfamily,\n", "line 2: a category and a word are expected"),
        (b"\xff\xfe", "cannot be read as CSV in UTF-8"),
        (b'a,"b', "cannot be read as CSV in UTF-8"),
    ],
)
def test_a_file_that_is_no_list_of_words_is_refused_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "words.csv").write_bytes(content)
    with pytest.raises(LabelsError, match=why) as refused:
        read_keyword_list(str(tmp_path / "words.csv"))
    assert "\n" not in str(refused.value)


def test_a_category_can_be_a_field_inside_of_another(tmp_path: Path) -> None:
    scan = ["scan", captioned(tmp_path), "--run", tmp_path / "run", "--engine", "canned"]
    assert privsieve(*scan, "--category", "meta.licence.kind") == 0
    assert [row["category"] for row in rows(tmp_path / "run")] == ["cc-by", None, None, None, "cc0"]


def test_rates_by_domain_are_one_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert privsieve("scan", captioned(tmp_path), "--run", tmp_path / "run", "--engine", "canned") == 0
    found = [row["domain"] for row in rows(tmp_path / "run")]
    assert found == ["example.com", "example.com", None, "example.co.uk", None]
    capfd.readouterr()
    assert privsieve("report", tmp_path / "run", "--by", "domain", "--format", "json") == 0
    counted = {rate["group"]: rate["num_scored"] for rate in json.loads(capfd.readouterr().out)["rates"]}
    assert counted == {"example.com": 2, "example.co.uk": 1, "(none)": 2}
