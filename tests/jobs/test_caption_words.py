"""Categories from words of captions, from nested JSON fields, and the domain of each picture's URL."""

from pathlib import Path

import pytest

from ingest.categories import read_keyword_list
from ingest.errors import LabelsError


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
