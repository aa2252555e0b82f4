"""The page of `browse`, as a person uses it."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browsing.made import SHOWN, made_run, served

CLEAR = "none"


@pytest.fixture
def page(tmp_path: Path, open_page: OpenPage) -> Iterator[Page]:
    with served(made_run(tmp_path)) as server:
        page = open_page(server.address)
        expect(page.locator(".tile")).to_have_count(len(SHOWN))
        yield page
        page.context.close()


def keys(page: Page) -> list[str]:
    return [str(tile.get_attribute("title")) for tile in page.locator(".tile").all()]


def test_pictures_are_blurred_until_held_and_filters_lie_in_the_address(page: Page) -> None:
    first = page.locator(".tile").first
    expect(first).to_have_attribute("data-shown", "0")
    expect(first.locator("img")).to_have_css("filter", "blur(16px)")
    assert keys(page) == SHOWN
    expect(first.locator(".box")).to_have_count(2)
    box, image = first.locator(".box").first.bounding_box(), first.locator("img").bounding_box()
    assert box is not None
    assert image is not None
    assert abs((box["x"] - image["x"]) / image["width"] - 0.25) < 0.02
    assert abs(box["height"] / image["height"] - 0.625) < 0.02
    first.focus()
    page.keyboard.down(" ")
    expect(first.locator("img")).to_have_css("filter", CLEAR)
    assert page.locator(".stage.clear").count() == 1
    page.keyboard.up(" ")
    expect(first.locator("img")).to_have_css("filter", "blur(16px)")
    expect(page.locator("#details")).to_be_hidden()

    # Arrows, details, Escape.
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tile").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#facts")).to_contain_text("Biometrics")
    expect(page.locator("#large .box")).to_have_text("Biometrics")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#facts")).to_contain_text("Age")
    expect(page.locator("#decisions")).to_contain_text("by the rule most-severe")
    expect(page.locator("#large")).to_have_attribute("data-shown", "0")
    assert "blur" in page.eval_on_selector("#large img", "one => getComputedStyle(one).filter")
    page.keyboard.down(" ")
    expect(page.locator("#large img")).to_have_css("filter", CLEAR)
    page.keyboard.up(" ")
    page.locator("#hold").hover()
    page.mouse.down()
    expect(page.locator("#large img")).to_have_css("filter", CLEAR)
    page.mouse.up()
    expect(page.locator("#large img")).not_to_have_css("filter", CLEAR)
    page.keyboard.press("Escape")
    expect(page.locator("#details")).to_be_hidden()
    expect(first).to_be_focused()

    # Filters, counts and links.
    expect(page.locator("#status")).to_have_text("rows 1–7 of 7 that fit; never shown: 1 on the hash list")
    expect(page.locator("#category option")).to_have_text(["all", "beach (3)", "office (3)", "no category (1)"])
    page.select_option("#category", label="office (3)")
    expect(page.locator("#status")).to_contain_text("of 3 that fit")
    assert page.evaluate("location.hash") == "#category=office"
    page.locator('#values [data-key="biometrics"][data-value="0.5"]').click()
    expect(page.locator(".tile")).to_have_count(1)
    assert keys(page) == ["half"]
    expect(page.locator('#values [data-key="biometrics"][data-value="0.5"]')).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.locator(".tile")).to_have_count(3)
    page.select_option("#policy", label="strict")
    expect(page.locator("#action option")).to_have_text(["all", "drop (3)"])
    address = page.url
    page.goto("about:blank")
    page.goto(address.partition("#")[0] + "#no_category=1")
    expect(page.locator(".tile")).to_have_count(1)
    assert keys(page) == ["nothing"]
    expect(page.locator("#category")).to_have_value("null")

    page.locator("#clear").click()
    expect(page.locator(".tile")).to_have_count(7)


def test_a_wrong_condition_is_a_line_and_what_fits_is_exported(page: Page) -> None:
    names = [page.locator(".tile small").nth(2 * place).inner_text() for place in range(len(SHOWN))]
    assert names == SHOWN  # a name with tags is text
    page.evaluate("location.hash = 'action=keep'")  # without a policy
    expect(page.locator("#error")).to_have_text("an action is one of a policy; choose a policy, too")
    expect(page.locator(".tile")).to_have_count(0)
    page.locator("#clear").click()
    page.fill("#condition", "level = 1")
    page.keyboard.press("Enter")
    expect(page.locator(".tile")).to_have_count(2)
    with page.expect_download() as download:
        page.locator("#export").click()
    assert download.value.suggested_filename == "rows.csv"
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert [row["key"] for row in rows] == ["<b>both</b>", "face"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
