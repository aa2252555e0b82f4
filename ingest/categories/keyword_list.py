"""A file of words that give each image a category by its caption: CSV, `category,word` on each line."""

import csv
import hashlib
import re
from dataclasses import dataclass

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.given_files import given_content
from ingest.storage.place import place

MAX_FILE_BYTES = 2**20
MAX_CHARACTERS = 255
"""Limit of a category, and of a word."""

HEADS = ("category", "word")


@dataclass(frozen=True)
class KeywordList:
    """The words of each category, in the order of the file. Small enough to be sent to workers."""

    url: str
    """URL of the file."""

    sha256: str
    """Hash of its bytes."""

    words: tuple[tuple[str, re.Pattern[str]], ...]
    """Category, and a pattern that matches any of its words."""

    def category_of(self, caption: str | None) -> str | None:
        """Return the first category with a word, or phrase, that is in the caption, or None.

        Whole words count, in any case: `cat` is in "a Cat." and not in "category".
        """
        folded = "" if caption is None else " ".join(caption.casefold().split())
        return next((category for category, words in self.words if words.search(folded)), None)


def read_keyword_list(url: str) -> KeywordList:
    """Read a list. LabelsError or StorageError if the file is not such a list."""
    content = given_content(place(url), f"--caption-words {url}", MAX_FILE_BYTES)
    words_by_category: dict[str, list[str]] = {}
    try:
        for number, cells in enumerate(csv.reader(content.decode("utf-8-sig").splitlines(), strict=True), 1):
            row = [cell.strip() for cell in cells]
            if not any(row) or (number == 1 and tuple(cell.lower() for cell in row) == HEADS):
                continue
            if len(row) != len(HEADS) or not all(0 < len(cell) <= MAX_CHARACTERS for cell in row):
                raise LabelsError(
                    f"{url}, line {number}: a category and a word are expected, with a comma between, each of at most "
                    f"{MAX_CHARACTERS} characters"
                )
            words_by_category.setdefault(printable(row[0]), []).append(" ".join(row[1].casefold().split()))
    except (UnicodeDecodeError, csv.Error):
        raise LabelsError(f"{url} cannot be read as CSV in UTF-8; give a category and a word per line") from None
    if not words_by_category:
        raise LabelsError(f"{url} names no word; give a category and a word per line, with a comma between")
    words = tuple((category, _any_of(category_words)) for category, category_words in words_by_category.items())
    return KeywordList(url, hashlib.sha256(content).hexdigest(), words)


def _any_of(words: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")
