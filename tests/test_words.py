"""Docstrings, comments, messages and pages are plain English: a list of odd words is refused."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("ingest", "scoring", "reports", "jobs", "privsieve")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [file for room in ROOMS for kind in ("j2", "sql", "sh") for file in sorted((ROOT / room).rglob(f"*.{kind}"))]
"""Pages, templates of pages, and texts of which the comments are read."""

BANNED = re.compile(
    r"\b(told|whoever|nobody|beside|stands? (?:for|in)|stood|for ever|so many|as may be|(?:is|be|are) had|lies|lie in"
    r"|goes along|comes along|looked at)\b"
    r"|\bas\s+of\b(?!\s+(?:\d|version|today))",  # a date or a version follows it, not a place to look something up
    re.IGNORECASE,
)
KEPT = frozenset(
    [
        "name beside a matching user name or mailbox",  # kinds of evidence, which rows store
        "sex beside a name",
    ]
)
"""Texts that are part of a file format."""


def _sources() -> list[Path]:
    return sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Line number and text of every string and comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("file", _sources(), ids=lambda file: str(file.relative_to(ROOT)))
def test_texts_have_no_odd_words(file: Path) -> None:
    texts = [(line, text) for line, text in _texts(file.read_text(encoding="utf-8")) if text not in KEPT]
    odd = [f"line {line}: {word[0]}" for line, text in texts if (word := BANNED.search(text))]
    assert odd == []


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_pages_have_no_odd_words(file: Path) -> None:
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"line {number}: {word[0]}" for number, line in lines if (word := BANNED.search(line))] == []


@pytest.mark.parametrize("file", _sources(), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_docstring_begins_with_of(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    assert [node.lineno for node in strings if re.match(r"Of\b", str(node.value))] == []


def test_a_class_name_has_one_meaning() -> None:
    named = Counter(
        node.name
        for file in _sources()
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, num in named.items() if num > 1} == set()


def test_the_list_of_words_catches_them() -> None:
    assert BANNED.search("The files beside the image")
    assert not BANNED.search("The files next to the image")
    assert BANNED.search("Errors as\n    of `listings`")
    assert not BANNED.search("The prices as of 2026-11-01, as of version 0.2")
    assert not BANNED.search("The areas of a picture, as often as another")
