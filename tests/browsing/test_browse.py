"""Rows by filters, their counts, and what nobody sees."""

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from jobs.runtime.pictures import PictureRef, Pictures
from jobs.runtime.progress import SILENT
from jobs.serving.browse.server import Browsing
from jobs.serving.local_server import LocalServer
from jobs.serving.shown import Screen
from reports.report.explaining import explanation, row_named
from reports.report.opened import open_run
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.runs.source import source_of
from scoring.table import Facts
from tests.browsing.made import FOUND, SHOWN, answer, content, counts, export, keys, served, written
from tests.jobs.made import privsieve, tar
from tests.reviewing.made import Person, pdq, smaller_and_mirrored

Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, SHOWN),
        ({"category": "beach"}, ["<b>both</b>", "face", "walker"]),
        ({"has_no_category": True}, ["nothing"]),
        ({"category": "'; DROP TABLE browsed; --"}, []),
        ({"level": "1"}, ["<b>both</b>", "face"]),
        ({"level": "0"}, ["half", "nothing"]),
        ({"level": "null"}, ["cut"]),
        ({"attributes": {"biometrics": "1"}}, ["<b>both</b>", "face"]),
        ({"attributes": {"biometrics": "0.5"}}, ["half"]),
        ({"attributes": {"biometrics": "1", "full_legal_name": "0"}}, ["face"]),
        ({"attributes": {"age": "null"}}, ["<b>both</b>", "cut"]),
        ({"kind": "face"}, ["<b>both</b>", "face"]),
        ({"status": "quarantined"}, ["cut"]),
        ({"reason": "truncated"}, ["cut"]),
        ({"condition": "category = 'office' AND full_legal_name = 1"}, ["=name()"]),
        ({"condition": "score > 2"}, []),
        ({"category": "office", "status": "scored", "condition": "score >= 0"}, ["=name()", "half"]),
    ],
    ids=str,
)
def test_a_filter_shows_the_rows_that_fit_all_of_it(
    person: Person, wanted: Mapping[str, object], expected: list[str]
) -> None:
    assert keys(person, **wanted) == expected


def test_a_count_says_how_many_rows_a_value_would_leave(person: Person) -> None:
    found = counts(person)
    assert found["category"] == {"beach": 3, "office": 3, None: 1}
    assert found["level"] == {0: 2, 1: 2, 2: 1, 3: 1, None: 1}
    assert found["kind"] == {"face": 2, "name": 2}
    assert found["status"] == {"scored": 6, "quarantined": 1}
    assert found["reason"] == {None: 6, "truncated": 1}
    assert found["action"] == {}
    assert found["attributes"]["biometrics"] == {"1": 2, "0.5": 1, "0": 3, "null": 1}
    assert found["attributes"]["age"] == {"1": 1, "0.5": 0, "0": 4, "null": 2}
    found = counts(person, category="office", attributes={"biometrics": "0.5"})
    assert found["category"] == {"office": 1}
    assert found["level"] == {0: 1}
    assert found["attributes"]["biometrics"] == {"1": 0, "0.5": 1, "0": 1, "null": 1}
    assert found["attributes"]["full_legal_name"] == {"1": 0, "0.5": 0, "0": 1, "null": 0}
    found = counts(person, category="beach")
    assert found["category"] == {"beach": 3, "office": 3, None: 1}
    assert found["kind"] == {"face": 2, "name": 1}


@pytest.mark.slow
@pytest.mark.parametrize("policy", SHIPPED)
def test_the_decisions_of_a_policy_are_those_that_explain_names(run: Path, person: Person, policy: str) -> None:
    policies = [load_policy(policy_bytes(policy), policy)]
    with open_run(str(run)) as opened:
        explained = {key: explanation(opened, row_named(opened, key), policies) for key in SHOWN}
    actions = {key: found.decisions[0].action for key, found in explained.items()}
    for action in ("keep", "flag", "drop"):
        expected = [key for key in SHOWN if actions[key] == action]
        assert keys(person, policy=policy, action=action) == expected
        assert counts(person, policy=policy)["action"].get(action, 0) == len(expected)


@pytest.mark.slow
def test_details_are_the_lines_of_explain(run: Path, person: Person, capsys: Capture) -> None:
    for number, key in enumerate(SHOWN):
        assert privsieve("explain", run, key) == 0
        lines = capsys.readouterr().out.splitlines()
        says = person.get(f"/api/details/{number}").json
        assert [f"{name:12} {value}" for name, value in says["facts"]] == lines[: lines.index("")]
        decided = [f"policy {one['policy']}: {one['action']}, by the rule {one['rule']}" for one in says["decisions"]]
        assert decided == [line for line in lines if line.startswith("policy ")]
        assert len(decided) == len(SHIPPED)
    assert person.get("/api/details/7").json == {"error": "there is no such row"}


@pytest.mark.slow
def test_a_page_has_60_rows_and_all_pages_have_each_row_once(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    tar(tmp_path / "corpus" / "0.tar", {})
    facts = [Facts("0.tar", number, f"key-{number}", None, 9, f"{number:064x}") for number in range(130)]
    run = written(tmp_path, facts, [answer(age=number % 2) for number in range(130)])
    with served(run) as server:
        person = Person(server.address)
        pages = [person.post("/api/page", {"filter": {}, "page": page}).json for page in (1, 2, 3, 4)]
        assert [page["num_rows"] for page in pages] == [130] * 4
        assert [len(page["rows"]) for page in pages] == [60, 60, 10, 0]
        assert [row["key"] for page in pages for row in page["rows"]] == [
            f"key-{number}" for number in (*range(1, 130, 2), *range(0, 130, 2))
        ]
        odd = person.post("/api/page", {"filter": {"attributes": {"age": "1"}}, "page": 2}).json
        assert [row["number"] for row in odd["rows"]] == [60, 61, 62, 63, 64]
        for limit in range(12):  # more conditions than are kept
            condition = f"index < {limit}"
            assert person.post("/api/page", {"filter": {"condition": condition}}).json["num_rows"] == limit


def test_the_picture_of_a_row_comes_small_and_large_and_with_boxes_of_its_first_frame(person: Person) -> None:
    small, large = (person.get(f"/api/{kind}/0") for kind in ("thumbnail", "picture"))
    assert [Image.open(io.BytesIO(one.content)).size for one in (small, large)] == [(256, 256)] * 2
    assert person.get("/api/thumbnail/6").json == {"state": "undecodable"}
    rows = {row["key"]: row for row in person.post("/api/page", {"filter": {}}).json["rows"]}
    sides = {"x_min": 0.25, "y_min": 0.125, "x_max": 0.5, "y_max": 0.75}
    assert rows["face"]["boxes"] == [{"attribute": "biometrics", **sides}]
    assert [box["x_max"] for box in rows["=name()"]["boxes"]] == [0.75, 0.5]
    assert (rows["cut"]["boxes"], rows["cut"]["has_picture"]) == ([], True)


def test_pictures_in_memory_are_bounded_by_count_and_bytes(run: Path) -> None:
    with open_run(str(run)) as opened:
        rows = opened.rows(["shard", "index", "sha256", "key"]).to_pylist()
        record = opened.record
    places = [PictureRef(**row) for row in rows]
    for bounds in ({"kept": 2}, {"kept_bytes": 1}):
        screen = Screen(Pictures(source_of(record), places), places, record, {}, **bounds)  # type: ignore[arg-type]
        first = screen.picture(0)
        assert screen.picture(0) is first
        for number in (1, 2, 3):
            assert screen.picture(number).state == "shown"
        assert screen.picture(0) is not first
        assert screen.picture(0).jpeg == first.jpeg
        assert len(screen._kept) <= 2
        screen.close()


def test_what_a_scan_found_on_its_list_is_counted_and_nowhere_else(person: Person) -> None:
    assert person.get("/api/state").json["withheld"] == {"listed": 1}
    assert all(key for key in keys(person, condition="true"))
    assert keys(person, reason="listed") == []
    assert keys(person, condition="reason = 'listed'") == []
    assert b"listed" not in export(person)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sha256", "pdq"])
def test_what_is_on_a_hash_list_is_never_shown_named_or_exported(run: Path, tmp_path: Path, kind: str) -> None:
    listed = SHOWN.index("walker")
    # The scan stored no PDQ hashes, so the pictures are read again.
    text = f"sha256 {sha256(listed)}" if kind == "sha256" else f"pdq {pdq(smaller_and_mirrored(content(listed)))}"
    (tmp_path / "list.txt").write_text(text)
    notices = list[str]()
    feedback = replace(SILENT, notice=notices.append)
    with served(run, feedback, hash_list=str(tmp_path / "list.txt")) as server:
        person = Person(server.address)
        withheld = {"listed": 2} if kind == "sha256" else {"listed": 2, "not_compared": 1}
        assert person.get("/api/state").json["withheld"] == withheld
        left = [key for key in SHOWN if key != "walker" and (kind == "sha256" or key != "cut")]
        assert keys(person) == left
        assert notices[-1].startswith(f"{len(left)} rows; 2 more rows on the hash list, never shown")
        assert counts(person)["level"].get(3) is None
        said = [person.get(f"/api/details/{number}").content for number in range(8)]
        said.append(person.get("/api/state").content)
        said.append(export(person))
        said += [person.post(f"/api/{verb}", {"filter": {}}).content for verb in ("page", "counts")]
        for one in said:
            assert sha256(listed).encode() not in one
            assert b"walker" not in one
        shown = [person.get(f"/api/picture/{number}") for number in range(len(left))]
        assert listed < len(shown)
        originals = {hashlib.sha256(one.content).hexdigest() for one in shown}
        with served(run) as all_of_it:
            picture = Person(all_of_it.address).get(f"/api/picture/{listed}").content
        assert hashlib.sha256(picture).hexdigest() not in originals


def sha256(number: int) -> str:
    return hashlib.sha256(content(number)).hexdigest()


PATHS = ("/", "/browse.js", "/review.css", "/api/state", "/api/thumbnail/0", "/api/picture/0", "/api/details/0")


def test_without_the_token_nothing_is_shown(server: LocalServer[Browsing], person: Person) -> None:
    for path in PATHS:
        allowed = person.get(path)
        assert allowed.status == 200, path
        assert "default-src 'none'; script-src 'self'" in allowed.headers["content-security-policy"]
        assert allowed.headers["cache-control"] == "no-store"
        assert person.get(path, Cookie="").status == 403
        assert person.get(path, Host="evil.example").status == 421
    for path in ("/api/page", "/api/counts", "/api/export"):
        assert person.post(path, {"filter": {}}, Cookie="").status == 403
        assert person.post(path, {"filter": {}}, Origin="http://evil.example").status == 403
    assert server.listening.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"condition": "levl = 1"}, 'no column "levl" (did you mean "level"?) at character 1: levl = 1'),
        ({"condition": "1; DROP TABLE browsed"}, "syntax error"),
        ({"condition": "(SELECT 1) = 1"}, "subquery is not allowed in an expression over the row"),
        ({"condition": "key"}, "the condition gives VARCHAR, not true or false: key"),
        ({"condition": "key::INT = 1"}, "a value cannot be converted as asked"),
        ({"policy": "absent"}, "there are no decisions of this policy; choose one on the page"),
        ({"action": "drop"}, "an action is one of a policy; choose a policy, too"),
        ({"level": "9"}, "this is not what the page sends; load it again"),
        ({"attributes": {"1=1 OR age": "1"}}, "this is not what the page sends; load it again"),
        ({"attributes": {"age": "1 OR true"}}, "this is not what the page sends; load it again"),
        ({"condition": "x" * 200_000}, "the request has more than 131,072 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_asked_wrongly_is_one_line(person: Person, wanted: Mapping[str, object], message: str) -> None:
    for path in ("/api/page", "/api/counts", "/api/export"):
        answered = person.post(path, {"filter": wanted})
        assert answered.status == 400 or path == "/api/page"
        assert message in answered.json["error"]
        assert "\n" not in answered.json["error"]
    assert keys(person) == SHOWN


def test_where_and_a_policy_are_taken_from_the_command_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "name: own\nrules:\n  - {name: faces, when: biometrics >= 0.5, then: drop, reason: a face}\ndefault: keep\n"
    )
    own = str(tmp_path / "own.yaml")
    with served(run, where="category = 'office' OR level = 1", policy=own) as server:
        person = Person(server.address)
        state = person.get("/api/state").json
        assert (state["num_rows"], state["policy"], state["policies"]) == (5, own, [*SHIPPED, own])
        assert keys(person, policy=own, action="drop") == ["<b>both</b>", "face", "half", "cut"]
        assert keys(person, policy=own, action="keep") == ["=name()"]


def test_nothing_is_written(run: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}

    before = files()
    with served(run) as server:
        person = Person(server.address)
        keys(person, policy="strict", condition="level = 1")
        export(person)
        person.get("/api/details/0")
    assert files() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "levl = 1"], '--where: no column "levl" (did you mean "level"?)'),
        (["--where", "score > 2"], "there is no row to browse"),
        (["--policy", "strikt"], "there is no policy strikt (did you mean"),
        (["--hash-list", "absent.txt"], "absent.txt cannot be read"),
        (["--port", "65536"], "65536"),
    ],
)
def test_a_wrong_command_is_one_line_and_code_2(run: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    assert privsieve("browse", run, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_more_rows_than_fit_in_memory_are_refused_with_what_to_do(
    run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.report.browsed_rows.MAX_ROWS", 6)
    assert privsieve("browse", run) == 2
    assert "7 rows are too many to browse at once; choose at most 6 with --where" in capsys.readouterr().err


def test_csv_has_the_rows_that_fit_and_no_formula(person: Person) -> None:
    rows = list(csv.DictReader(export(person, category="office").decode().splitlines()))
    assert [row["key"] for row in rows] == ["'=name()", "half", "cut"]
    assert [row["biometrics"] for row in rows] == ["0", "0.5", ""]
    assert [row["level"] for row in rows] == ["2", "0", ""]
    assert not {"rationale", "boxes", "action"} & rows[0].keys()
    decided = list(csv.DictReader(export(person, policy="strict", action="drop").decode().splitlines()))
    assert {row["action"] for row in decided} == {"drop"}
    assert [row["key"] for row in decided] == ["<b>both</b>", "face", "'=name()", "half", "cut"]
    assert FOUND in str(person.get("/api/details/0").json)
    assert FOUND.encode() not in export(person), "no export holds what an engine wrote"
