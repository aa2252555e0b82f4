"""`privsieve diff` as a user calls it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import Fault
from reports.diff.compute import compare_runs
from reports.diff.words import render
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.reports.diff.made import PictureRow, make
from tests.reports.evaluation.conftest import found, hash_of

HOSTILE = "<script>alert(1)</script>\x1b[31m=cmd"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    a: list[PictureRow] = [(HOSTILE, "c0", HOSTILE, found(gov_ids=1)), ("k1", "c1", None, Fault("rejection", HOSTILE))]
    b: list[PictureRow] = [(HOSTILE, "c0", HOSTILE, found()), ("k1", "c1", None, found(age=1))]
    return make(tmp_path, "a", a), make(tmp_path, f"b{HOSTILE.replace('/', '')}", b)


def test_the_terminal_and_the_page_show_what_changed_and_escape_names(
    runs: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "page.html"
    assert privsieve("diff", *runs, "--html", page) == 0
    text = capsys.readouterr().out
    assert "settings: all the same" in text
    assert "Private: 100.0 % of 1 pictures in A, 0.0 % in B; only in A 1, only in B 0" in text
    assert re.search(r"quarantined +0 +1 +0", text)
    assert re.search(r"gov_ids +1 +1 +0 +0 +1 +0 +0\.000 +1\.0000 +1\.0000", text)
    assert "\x1b" not in text
    assert "\\x1b[31m=cmd" in text
    assert f"page written to {page}" in text
    html = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert len(html) < 60_000


def test_json_holds_every_count(runs: tuple[str, str], capsys: Capture) -> None:
    assert privsieve("diff", *runs, "--format", "json") == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["num_pairs"] == 2
    assert sum(map(sum, stored["levels"])) == 2
    assert len(stored["attributes"]) == 22
    assert stored["private"]["p_value"] == 1.0
    assert [one["group"] for one in stored["groups"]][1] == "(none)"


def test_a_page_of_many_categories_stays_below_its_size(runs: tuple[str, str]) -> None:
    """Each with a name as long as the page shows."""
    result = compare_runs(*runs)
    groups = [replace(result.groups[0], group=f"{n:-<200}") for n in range(10_000)]
    page = render(replace(result, groups=tuple(groups)))
    assert "8,000 more are not listed" in page
    assert 200_000 < len(page.encode()) < 1_500_000


def test_wrong_input_is_one_line(runs: tuple[str, str], monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.chdir(Path(runs[0]).parent)
    for arguments, message in (
        ((runs[0], runs[0]), "is given twice; compare it with another run"),
        ((runs[0], f"{runs[0]}/../a/."), "is given twice; compare it with another run"),
        (("a", "./a/"), "is given twice; compare it with another run"),
        ((runs[0], "nowhere"), "nowhere is not a run"),
        ((*runs, "--by", "categori"), 'did you mean "category"?'),
    ):
        assert privsieve("diff", *arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_nothing_is_said_of_groups_where_no_picture_could_be_read(tmp_path: Path, capsys: Capture) -> None:
    broken: list[PictureRow] = [("k1", "c1", "street", Fault("truncated", "cut"))]
    assert privsieve("diff", make(tmp_path, "a", broken), make(tmp_path, "b", broken)) == 0
    text = capsys.readouterr().out
    assert "There is no picture of which both runs say whether it is private" in text
    assert "Rate changed" not in text


def test_pictures_on_the_hash_list_are_counted_and_not_named(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    keys = ("listed.jpg", "other.jpg")
    a = make(tmp_path, "a", [(key, key, "cat", found(gov_ids=1)) for key in keys])
    b = make(tmp_path, "b", [(key, key, "cat", found()) for key in keys])
    listed = tmp_path / "listed.txt"
    listed.write_text(f"sha256 {hash_of('listed.jpg')}")
    monkeypatch.setenv("PRIVSIEVE_HASH_LIST", str(listed))
    page = tmp_path / "page.html"
    assert privsieve("diff", a, b, "--html", page) == 0
    text = capsys.readouterr().out
    assert privsieve("diff", a, b, "--format", "json") == 0
    as_json = capsys.readouterr().out
    for output in (text, page.read_text(encoding="utf-8"), as_json):
        assert "other.jpg" in output
        assert "listed.jpg" not in output
    assert "1 picture of those whose level changed most is not named: on the hash list" in text
    assert (json.loads(as_json)["num_pairs"], json.loads(as_json)["num_unnamed"]) == (2, 1)
    assert [one["group"] for one in json.loads(as_json)["groups"]] == ["cat"]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["key", "concat(category, '/', key)"])
def test_a_group_that_would_name_a_picture_on_the_hash_list_is_counted_and_not_named(
    by: str, tmp_path: Path, capsys: Capture
) -> None:
    keys = ("one.jpg", "listed.jpg", "listed-too.jpg", "two.jpg")
    a = make(tmp_path, "a", [(key, key, "cat", found(gov_ids=1)) for key in keys])
    b = make(tmp_path, "b", [(key, key, "cat", found()) for key in keys])
    listed, page = tmp_path / "listed.txt", tmp_path / "page.html"
    listed.write_text("\n".join(f"sha256 {hash_of(key)}" for key in keys if key.startswith("listed")))
    options = ("--by", by, "--hash-list", listed)
    assert privsieve("diff", a, b, *options, "--html", page) == 0
    text = capsys.readouterr().out
    assert privsieve("diff", a, b, *options, "--format", "json") == 0
    as_json = capsys.readouterr().out
    for output in (text, page.read_text(encoding="utf-8"), as_json):
        assert "one.jpg" in output
        assert "listed.jpg" not in output
        assert "listed-too.jpg" not in output
    assert "2 groups are not listed, with only pictures on the hash list, or not to be compared with it." in text
    stored = json.loads(as_json)
    assert (len(stored["groups"]), stored["num_unnamed_groups"]) == (2, 2)
    assert stored["private"]["num_pictures"] == 4  # counted
