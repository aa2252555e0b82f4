"""Releases are what they were, to the byte; `python -m tests.releases.golden` writes anew what they are to be."""

from pathlib import Path

import pytest

from tests.releases.golden import CASES, GOLDEN, made_in


@pytest.mark.parametrize("name", CASES)
def test_a_release_and_what_a_takedown_changes_in_it_are_as_before(name: str, tmp_path: Path) -> None:
    texts = made_in(tmp_path, name)
    golden = {str(p.relative_to(GOLDEN / name)): p.read_text() for p in (GOLDEN / name).rglob("*") if p.is_file()}
    assert sorted(texts) == sorted(golden)
    for path, text in golden.items():
        assert texts[path] == text, f"{name}/{path}"
