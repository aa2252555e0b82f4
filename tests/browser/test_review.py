"""The page of `review`, as a person uses it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ingest.storage.place import place
from jobs.serving.local_server import LocalServer
from jobs.serving.review.progress import ReviewPage
from scoring.labels.reviews import read_reviews
from scoring.labels.table import read_labels
from scoring.taxonomy import KEYS
from tests.browser.conftest import OpenPage
from tests.making import Folders
from tests.reviewing.made import run_of, served
from tests.tuning_sets.made import files, sha256


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: Folders) -> Path:
    return run_of(tmp_path_factory.mktemp("scanned"))


@pytest.fixture
def run(scanned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(scanned, tmp_path / "run"))


@pytest.fixture
def opened(open_page: OpenPage) -> Iterator[Any]:
    """A server with these settings, and its page."""
    with ExitStack() as stack:

        @contextmanager
        def opened_one(run: Path, width: int = 1400, **more: Any) -> Iterator[tuple[LocalServer[ReviewPage], Page]]:
            with served(run, **more) as server:
                page = open_page(server.address, width)
                yield server, page
                page.context.close()

        yield lambda *given, **more: stack.enter_context(opened_one(*given, **more))


def shown(page: Page) -> int:
    page.wait_for_selector("#review[data-shown] #stage:not([hidden])")
    return int(page.get_attribute("#review", "data-shown") or "")


def gone(page: Page, number: int) -> None:
    """Another picture is shown, or none any more."""
    expect(page.locator("#review")).not_to_have_attribute("data-shown", str(number))


def blur(page: Page) -> str:
    return str(page.eval_on_selector("#picture", "one => getComputedStyle(one).filter"))


def rows(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_reviews(place(str(run / "reviews"))).to_pylist()
    return found


def test_a_picture_is_blurred_until_the_space_bar_or_the_button_is_held(run: Path, opened: Any) -> None:
    _, page = opened(run, reviewer="ana")
    shown(page)
    expect(page.locator("#means")).to_contain_text("Private: it shows a unique identifier (level 1")
    expect(page.locator("#stage")).not_to_have_class("clear")
    assert "blur" in blur(page)
    page.keyboard.down(" ")
    expect(page.locator("#picture")).to_have_css("filter", "none")
    page.keyboard.up(" ")
    expect(page.locator("#picture")).not_to_have_css("filter", "none")
    page.locator("#hold").hover()
    page.mouse.down()
    expect(page.locator("#picture")).to_have_css("filter", "none")
    page.mouse.up()
    expect(page.locator("#picture")).not_to_have_css("filter", "none")
    page.keyboard.press("v")
    expect(page.locator("#picture")).to_have_css("filter", "none")
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(page.locator("#keep")).to_have_attribute("aria-pressed", "false")
    shown(page)
    assert page.evaluate("fetch('/api/picture/0').then(a => a.headers.get('content-type'))") == "image/jpeg"


def test_one_key_answers_another_takes_it_back_and_the_model_speaks_last(run: Path, opened: Any) -> None:
    server, page = opened(run, reviewer="ana")
    first = shown(page)
    expect(page.locator("#model")).to_be_hidden()
    page.keyboard.press("1")
    expect(page.locator("#model")).to_be_visible()
    expect(page.locator("#said")).to_contain_text(server.page.asking.rows["key"][first].as_py())
    page.keyboard.press("z")
    expect(page.locator("#model")).to_be_hidden()
    assert shown(page) == first
    page.keyboard.press("2")
    expect(page.locator("#model")).to_be_visible()
    page.keyboard.press("Enter")
    gone(page, first)
    second = shown(page)
    page.keyboard.press("4")
    gone(page, second)
    expect(page.locator("#status")).to_have_text("4 of 6 left")
    page.keyboard.press("Backspace")  # before the answer: back to the picture before
    expect(page.locator("#review")).to_have_attribute("data-shown", str(second))
    expect(page.locator("#status")).to_have_text("5 of 6 left")
    hashes = server.page.asking.hashes
    assert [(row["sha256"], row["answer"]) for row in rows(run)] == [
        *((hashes[first], answer) for answer in ("private", "undo", "public")),
        *((hashes[second], answer) for answer in ("skip", "undo")),
    ]
    assert all(0 < row["seconds"] < 3600 for row in rows(run) if row["answer"] != "undo")


def test_boxes_are_moved_resized_added_removed_and_saved(run: Path, opened: Any) -> None:
    server, page = opened(run, reviewer="ana")
    number = shown(page)
    model = server.page.asking.model_answer(number)["boxes"]
    assert page.locator(".box").count() == 0
    page.keyboard.press("1")
    expect(page.locator(".box")).to_have_count(len(model))
    for _ in range(3):
        page.keyboard.press("x")
    expect(page.locator(".box")).to_have_count(len(model) + 3)
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    page.locator(".box").nth(len(model) + 1).focus()
    page.keyboard.press("Delete")
    expect(page.locator(".box")).to_have_count(len(model) + 2)
    area = page.locator("#boxes").bounding_box()
    dragged = page.locator(".box").nth(len(model)).bounding_box()
    assert area is not None
    assert dragged is not None
    x, y = dragged["x"] + dragged["width"] / 2, dragged["y"] + dragged["height"] / 2
    page.locator(".box").last.evaluate("one => one.style.pointerEvents = 'none'")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 0.1 * area["width"], y + 2 * area["height"])  # no farther than the edge
    page.mouse.up()
    page.keyboard.press("Enter")
    gone(page, number)
    expect(page.locator("#status")).not_to_contain_text("not saved")
    before, after = rows(run)
    assert (before["answer"], before["boxes"], after["answer"]) == ("private", None, "private")
    boxes = json.loads(after["boxes"])
    assert boxes[: len(model)] == model
    moved, keyed = boxes[len(model) :]
    assert (moved["by"], moved["attribute"]) == ("person", KEYS[0])
    assert [round(moved[side], 2) for side in ("x_min", "y_min", "x_max", "y_max")] == [0.45, 0.7, 0.75, 1]
    assert [keyed[side] for side in ("x_min", "y_min", "x_max", "y_max")] == [0.3, 0.35, 0.6, 0.66]


def test_a_person_gives_a_name_and_goes_on_where_they_were(run: Path, opened: Any) -> None:
    _, page = opened(run)
    page.fill("#name", "Ana")
    page.keyboard.press("Enter")
    page.locator("#at-once").check()
    seen = []
    for left in (5, 4, 3):
        seen.append(shown(page))
        page.keyboard.press("2")
        expect(page.locator("#status")).to_have_text(f"{left} of 6 left")
        gone(page, seen[-1])
    page.reload()
    assert shown(page) not in seen
    expect(page.locator("#status")).to_have_text("3 of 6 left")
    for _ in range(3):
        number = shown(page)
        page.keyboard.press("1")
        gone(page, number)
    expect(page.locator("#message")).to_contain_text("That was the last picture")
    labels = read_labels(str(run / "reviews"))
    assert sorted(labels["private"].to_pylist()) == [0, 0, 0, 1, 1, 1]
    assert set(labels["annotator"].to_pylist()) == {"Ana"}
    _, again = opened(run, reviewer="Ana")
    expect(again.locator("#message")).to_contain_text("That was the last picture")


def test_a_skipped_picture_keeps_the_models_answer_hidden_and_comes_back_at_the_end(run: Path, opened: Any) -> None:
    server, page = opened(run, reviewer="ana")
    heard: list[str] = []
    page.on("response", lambda answer: heard.append(answer.text()) if answer.url.endswith("/api/answer") else None)
    first = shown(page)
    page.keyboard.press("s")
    gone(page, first)
    expect(page.locator("#model")).to_be_hidden()
    page.locator("#at-once").check()
    for left in (4, 3, 2, 1, 0):
        number = shown(page)
        page.keyboard.press("1")
        gone(page, number)
        expect(page.locator("#status")).to_have_text(f"{left} of 6 left")
    expect(page.locator("#progress")).to_contain_text("5 of 6 pictures answered, 1 skipped, 0 left")
    expect(page.locator("#progress")).to_contain_text(f"privsieve evaluate {run} --labels {run}/reviews")
    assert heard[0] == '{"model":{}}'
    assert server.page.asking.rows["key"][first].as_py() not in "".join(heard)
    page.get_by_role("button", name="Look at the skipped picture again").press("Enter")
    assert shown(page) == first
    page.keyboard.press("2")
    expect(page.locator("#message")).to_have_text("That was the last picture. Thank you. What comes next is above.")
    expect(page.locator("#again")).to_be_hidden()
    expect(page.locator("#question")).to_have_text("You are done")
    expect(page.locator("#answers")).to_be_hidden()
    expect(page.locator("#progress")).to_contain_text("all 6 pictures answered")
    assert [row["answer"] for row in rows(run)] == ["skip", *["private"] * 5, "public"]


def test_attributes_have_keys_and_unnamed_ones_are_absent(run: Path, opened: Any) -> None:
    _, page = opened(run, 390, reviewer="ana", judged="attributes")
    shown(page)
    for key in ("1", "2", "2", "4", "4", "4", "l"):
        page.keyboard.press(key)
    expect(page.locator('[data-key="gov_ids"]')).to_have_attribute("aria-label", "Government IDs: unclear cue")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.keyboard.press("Enter")
    expect(page.locator("#model")).to_be_visible()
    (row,) = rows(run)
    expected: dict[str, float | None] = dict.fromkeys(KEYS, 0.0)
    expected |= {"biometrics": 1.0, "gov_ids": 0.5, "contact_details": None, "background_people": 1.0}
    assert {key: row[key] for key in KEYS} == expected


def test_a_listed_picture_never_reaches_the_browser_and_hostile_names_are_text(tmp_path: Path, opened: Any) -> None:
    pictures = files(4)
    pictures["<img src=x onerror=alert(1)>.png"] = pictures.pop("003.png")
    run = run_of(tmp_path, pictures)
    (tmp_path / "list.txt").write_text(f"{sha256(pictures['001.png'])}\n")
    server, page = opened(run, 390, reviewer="ana", hash_list=str(tmp_path / "list.txt"))
    received: dict[str, str] = {}
    page.on("response", lambda answer: received.update({answer.url: answer.headers["content-type"]}))
    page.reload()
    keys = server.page.asking.rows["key"].to_pylist()
    seen = []
    for _ in range(3):
        seen.append(shown(page))
        page.keyboard.press("1")
        expect(page.locator("#said")).to_contain_text(keys[seen[-1]])
        page.keyboard.press("Enter")
        gone(page, seen[-1])
    expect(page.locator("#message")).to_contain_text("That was the last picture")
    expect(page.locator("#progress")).to_contain_text("1 on the hash list")
    assert page.locator("img").count() == 1
    listed = keys.index("001")
    assert listed not in seen
    served_pictures = [url for url, kind in received.items() if "/api/picture/" in url and kind == "image/jpeg"]
    assert len(served_pictures) == 3
    assert not [url for url in served_pictures if url.endswith(f"/{listed}")]


def test_a_vote_is_one_of_four_classes_by_key_or_by_button(run: Path, opened: Any) -> None:
    _, page = opened(run, 390, reviewer="ana", judged="votes")
    first = shown(page)
    expect(page.locator("#question")).to_contain_text("who may see this picture?")
    expect(page.locator("#answers button")).to_have_text(
        [
            "Clearly private: must never be online 1",
            "Private: for me and people whom I choose 2",
            "Public: for everybody I know 3",
            "Clearly public: for anyone 4",
            "Unclear U",
            "Skip S",
        ]
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.keyboard.press("5")
    expect(page.locator("#model")).to_be_hidden()
    page.keyboard.press("1")
    expect(page.locator('[data-answer="clearly private"]')).to_have_class("given")
    expect(page.locator("#model")).to_be_visible()
    page.keyboard.press("z")
    expect(page.locator("#model")).to_be_hidden()
    page.keyboard.press("2")
    expect(page.locator("#model")).to_be_visible()
    page.keyboard.press("Enter")
    gone(page, first)
    second = shown(page)
    page.locator('[data-answer="clearly public"]').click()
    expect(page.locator("#model")).to_be_visible()
    page.keyboard.press("Enter")
    gone(page, second)
    expect(page.locator("#status")).to_have_text("4 of 6 left")
    assert [(row["answer"], row["vote"], row["private"]) for row in rows(run)] == [
        ("vote", "clearly private", 1),
        ("undo", None, None),
        ("vote", "private", 1),
        ("vote", "clearly public", 0),
    ]
