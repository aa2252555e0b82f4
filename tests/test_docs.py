"""The pages for people: each can be found, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _links(page: Path) -> set[Path]:
    """Files that a page links to; neither pictures nor what lies on other hosts."""
    targets = re.findall(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert not [str(target) for target in _links(page) if not target.exists()]


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    assert set((ROOT / "docs").rglob("*.md")) - _links(index) == {index}
    assert index in _links(ROOT / "README.md")


def test_the_changelog_has_a_section_for_the_version() -> None:
    from ingest import __version__

    assert re.search(rf"^## {re.escape(__version__)}( |$)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
