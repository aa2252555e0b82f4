"""The page of `similarity ask`, as a person uses it."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.similarity.made import folder
from tests.similarity.test_people import asked, served


@pytest.mark.parametrize("wanted", ["candidates", "pairs"])
def test_a_person_chooses_skips_takes_back_and_is_done(wanted: str, tmp_path: Path, open_page: OpenPage) -> None:
    originals = folder(tmp_path / "photos", 3)
    request = asked(originals, tmp_path / "study", asked=wanted, methods=("invert=1",), decoys=0.0)
    with served(request) as server:
        page = open_page(server.address)
        page.fill("#name", "ana")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_have_text("3 left")
        first = page.locator("#ask[data-shown]").get_attribute("data-shown")
        expect(page.locator("#candidates img")).to_have_count(3 if wanted == "candidates" else 1)
        page.keyboard.press("1")
        expect(page.locator("#ask")).not_to_have_attribute("data-shown", str(first))
        page.keyboard.press("z")
        expect(page.locator("#ask")).to_have_attribute("data-shown", str(first))
        page.get_by_role("button", name="Not the same" if wanted == "pairs" else "None of these").click()
        expect(page.locator("#ask")).not_to_have_attribute("data-shown", str(first))
        second = page.locator("#ask").get_attribute("data-shown")
        page.keyboard.press("s")
        expect(page.locator("#ask")).not_to_have_attribute("data-shown", str(second))
        page.locator("#candidates button, #answers button").first.click()
        expect(page.locator("#message")).to_have_text("That was the last one. You skipped 1.")
        page.locator("#again").click()
        expect(page.locator("#ask")).to_have_attribute("data-shown", str(second))
        page.keyboard.press("n")
        expect(page.locator("#message")).to_have_text("That was the last one. Thank you.")
        assert page.context.pages == [page]
        rows = server.page.answers.table().to_pylist()
    assert [row["answer"] for row in rows] == ["candidate", "undo", "none", "skip", "candidate", "undo", "none"]
    assert all(row["seconds"] > 0 for row in rows if row["answer"] != "undo")
