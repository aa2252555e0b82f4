"""The page of `evaluate`: a wrong answer is seen only while somebody holds its picture."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobs.reporting.evaluating import thumbnail
from reports.evaluation.compute import evaluate_run
from reports.evaluation.page import render
from reports.evaluation.results import WrongAnswer
from tests.browser.conftest import OpenPage
from tests.reports.evaluation.conftest import BINARY, MakeRun, answered, by_hash, hash_of, make_run

__all__ = ["make_run"]  # the fixture


def test_a_picture_is_blurred_until_it_is_held(make_run: MakeRun, tmp_path: Path, open_page: OpenPage) -> None:
    run = make_run([("a", answered(True, 0.9)), ("b", answered(False, 0.2))], BINARY)
    evaluation = evaluate_run(str(run), by_hash("ab", private=[0, 0]))
    error = WrongAnswer("a", 0, "a.jpg", hash_of("a"), False, 0.9, ())
    jpeg = thumbnail(np.full((200, 300, 3), 90, np.uint8))
    page_file = tmp_path / "page.html"
    page_file.write_text(render(replace(evaluation, errors=(error,)), {hash_of("a"): jpeg}), encoding="utf-8")
    page = open_page(page_file.as_uri(), width=800)
    picture, look = page.locator(".held img"), "one => getComputedStyle(one).filter"
    assert picture.evaluate(look) == "blur(16px)"
    picture.hover()
    page.mouse.down()
    assert picture.evaluate(look) == "none"
    page.mouse.up()
    assert picture.evaluate(look) == "blur(16px)"
    page.locator(".held").focus()
    page.keyboard.down("Space")
    assert picture.evaluate(look) == "none"
    page.keyboard.up("Space")
    assert "Labelled public, answered private" in page.locator("figcaption").last.inner_text()
