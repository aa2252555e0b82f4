"""What people answer is in the run at once, is not asked again, and is taken wherever labels are."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.labelling.labels import ConsensusRequest, run_consensus
from jobs.runtime.progress import SILENT
from jobs.serving.review.reviewing import result_of, summary
from scoring.labels.reviews import PART_ROWS, REVIEWS_SCHEMA, ReviewAnswers, read_reviews
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.runs.audit_files import read_sample
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve
from tests.reviewing.made import EVERY, Person, run_of, served, source_of
from tests.tuning_sets.made import files, sha256


def test_each_person_has_an_order_of_their_own_and_is_asked_everything_once(run: Path) -> None:
    with served(run) as server:
        ana, ben = Person(server.address, "ana"), Person(server.address, "ben")
        assert ana.next() != ben.next()
        assert sorted(ana.next()) == sorted(ben.next()) == list(range(6))
        assert ana.next() == Person(server.address, "ana").next()
        assert ana.say_all("private") == 6
        assert ana.next() == []
        assert len(ben.next()) == 6


def test_an_answer_shows_what_the_model_said_and_nothing_shows_it_before(run: Path) -> None:
    with served(run, reviewer="ana") as server:
        ana = Person(server.address)
        number = ana.next()[0]
        before = b"".join(ana.get(f"/api/{name}").content for name in ("state", "next", "progress"))
        key = server.page.asking.rows["key"][number].as_py()
        assert key.encode() not in before
        assert b"rationale" not in before
        assert ana.say(number, "skip").json == {"model": {}}
        assert key.encode() not in b"".join(ana.get(f"/api/{name}").content for name in ("state", "next", "progress"))
        model = ana.say(number, "private").json["model"]
        assert model["key"] == key
        assert model["rationale"] == server.page.asking.rows["rationale"][number].as_py()


@pytest.mark.parametrize("more", [{"blind": True}, {"gold": "gold.parquet"}, {"assign": "people.csv", "per_person": 6}])
def test_nothing_shows_what_the_model_said_to_people_of_a_study(
    run: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    (tmp_path / "people.csv").write_text("name\nana\n")
    gold: dict[str, Sequence[object]] = {"sha256": [sha256(files(1)["000.png"])], "annotator": ["us"], "private": [1]}
    write_labels(to_labels(gold, 1), str(tmp_path / "gold.parquet"), LabelsOrigin("hand"))
    given: dict[str, Any] = {
        name: str(tmp_path / value) if isinstance(value, str) else value for name, value in more.items()
    }
    with served(run, reviewer="ana", **given) as server:
        ana = Person(server.address)
        assert ana.get("/api/state").json["is_blind"]
        assert ana.say(ana.next()[0], "private").json == {"model": {}}


def test_the_last_answer_counts_and_to_take_one_back_is_an_answer_too(run: Path) -> None:
    with served(run, reviewer="ana") as server:
        ana = Person(server.address)
        first, second, third, fourth = ana.next()[:4]
        hashes = server.page.asking.hashes
        ana.say(first, "private", seconds=2.5, boxes=[])
        ana.say(first, "undo")
        assert ana.next()[0] == first
        ana.say(first, "public", seconds=9000.0)
        ana.say(second, "undo")
        ana.say(third, "unclear")
        ana.say(fourth, "skip")
        labels = {row["sha256"]: row for row in read_labels(str(run / "reviews")).to_pylist()}
        assert set(labels) == {hashes[n] for n in (first, third, fourth)}
        assert labels[hashes[first]]["private"] == 0
        for number in (third, fourth):  # not judged is null, never 0
            assert {labels[hashes[number]][name] for name in ("private", "score", *KEYS)} == {None}
    stored = read_reviews(place(str(run / "reviews")))
    assert stored["answer"].to_pylist() == ["private", "undo", "public", "undo", "unclear", "skip"]
    assert stored["seconds"].to_pylist() == [2.5, None, 3600.0, None, None, None]
    assert stored["boxes"].to_pylist()[0] == "[]"
    assert set(stored["queue"].to_pylist()) == {"sql"}


def test_the_end_says_who_answered_what_is_left_and_what_to_run_next(run: Path) -> None:
    with served(run) as server:
        assert list(summary(result_of(server.page))) == ["no new answer was saved"]
        ana, ben = Person(server.address, "ana"), Person(server.address, "ben")
        first, second, third = ana.next()[:3]
        ana.say(first, "private")
        ana.say(first, "undo")
        ana.say(first, "public")
        ana.say(second, "unclear")
        ana.say(third, "skip")
        says = ana.get("/api/progress").json
        assert (says["num_answered"], says["num_unclear"], says["num_skipped"], says["num_left"]) == (2, 1, 1, 3)
        assert (says["people"], says["next"]) == ({"ana": 2}, [f"privsieve evaluate {run} --labels {run}/reviews"])
        assert ana.post("/api/skipped", {}).json["num_left"] == 4
        ben.say_all("private")
        assert list(summary(result_of(server.page))) == [
            "ana: 2 of 6 pictures answered (1 of them unclear), 4 left",
            "ben: all 6 pictures answered",
            f"11 answers saved in {run}/reviews, changed and undone ones included",
            "to go on: the same command again",
            f"next: privsieve labels consensus {run}/reviews --out labels.parquet",
            f"next: privsieve evaluate {run} --labels labels.parquet",
        ]
    result: list[str] = []
    with served(run, reviewer="ben", feedback=replace(SILENT, notice=result.append)):
        assert result[1:] == ["6 pictures: those that fit the condition; ben: all 6 pictures answered"]


def test_attributes_are_0_1_unclear_or_not_judged_as_the_taxonomy_means_it(run: Path) -> None:
    with served(run, reviewer="ana", judged="attributes") as server:
        ana = Person(server.address)
        number, other = ana.next()[:2]
        values: dict[str, float | None] = dict.fromkeys(KEYS, 0.0)
        values |= {"biometrics": 0.5, "full_legal_name": 1.0, "age": None}
        assert ana.say(number, "attributes", values=values).status == 200
        refused = ana.say(other, "attributes", values=values | {"full_legal_name": 0.5})
        assert refused.status == 400
        assert refused.json["error"].startswith("full_legal_name is 0 or 1, or not judged")
        assert ana.say(other, "private").status == 400
        (label,) = read_labels(str(run / "reviews")).to_pylist()
        assert {key: label[key] for key in KEYS} == values
        assert label["private"] is None


@pytest.mark.slow
def test_a_review_is_continued_where_it_was_unless_it_is_asked_again(run: Path) -> None:
    with served(run) as server:
        ana = Person(server.address, "ana")
        done = ana.next()[:4]
        for number in done:
            ana.say(number, "public")
        ana.say(done[0], "undo")
    with served(run) as server, served(run) as beside:
        ana, elsewhere = Person(server.address, "ana"), Person(beside.address, "ben")
        assert sorted(ana.next()) == sorted(set(range(6)) - set(done[1:]))
        assert len(elsewhere.next()) == 6
        elsewhere.say_all("private")
        people = ana.get("/api/progress").json["people"]
        assert people == {"ben": 6, "ana": 3}
    with served(run, again=True) as server:
        assert len(Person(server.address, "ana").next()) == 6
    with served(run, judged="attributes") as server:  # another question
        assert len(Person(server.address, "ana").next()) == 6


@pytest.mark.slow
def test_nothing_that_was_acknowledged_is_lost_to_a_kill(run: Path) -> None:
    command = [sys.executable, "-m", "jobs", "review", str(run), "--queue", EVERY, "--as", "ana"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        ana = Person(address[0])
        numbers = ana.next()
        statuses = [ana.say(number, "private").status for number in numbers[:5]]
        server.send_signal(signal.SIGKILL)
        server.wait()
        assert server.stdout.read().count("\n") <= 1
    assert statuses == [200] * 5
    labels = read_labels(str(run / "reviews"))
    assert (labels.num_rows, set(labels["private"].to_pylist())) == (5, {1})
    with served(run) as again:
        assert Person(again.address, "ana").next() == numbers[5:]


def test_parts_stay_few_and_another_process_sees_each_answer(tmp_path: Path) -> None:
    writer, reader = ReviewAnswers(place(str(tmp_path))), ReviewAnswers(place(str(tmp_path)))
    for number in range(PART_ROWS + 2):
        row = {"sha256": f"{number:064x}", "annotator": "ana", "answer": "private", "private": 1}
        writer.add(row | {"queue": "sql", "is_gold": False})
        if number in (0, PART_ROWS - 1, PART_ROWS):
            reader.refresh()
            assert reader.table().num_rows == number + 1
    assert len(list(tmp_path.iterdir())) == 2
    times = read_reviews(place(str(tmp_path)))["answered_at"].to_pylist()
    assert times == sorted(set(times))


def test_two_servers_of_one_run_store_every_answer(run: Path) -> None:
    with served(run) as one, served(run) as other:
        ana, ben, ana_there = Person(one.address, "ana"), Person(other.address, "ben"), Person(other.address, "ana")
        numbers = ana.next()
        with ThreadPoolExecutor() as pool:
            said = [pool.submit(person.say, number, "private") for number in numbers[:4] for person in (ana, ben)]
            assert {answer.result().status for answer in said} == {200}
        assert ana_there.say(numbers[0], "public").status == 200
        assert ana.say(numbers[0], "private").status == 200  # the last answer counts, wherever it was given
        assert ana_there.say(numbers[1], "public").status == 200
        assert ben.get("/api/progress").json["people"] == {"ana": 4, "ben": 4}
    with served(run) as later:
        assert Person(later.address, "ana").next() == numbers[4:]
    answers = read_labels(str(run / "reviews"))
    assert Counter(answers["annotator"].to_pylist()) == {"ana": 4, "ben": 4}
    public = answers.filter(pc.equal(answers["private"], 0)).to_pylist()
    assert [row["annotator"] for row in public] == ["ana"]


def test_a_folder_or_part_that_is_no_review_is_one_line(run: Path, tmp_path: Path) -> None:
    with served(run, reviewer="ana") as server:
        Person(server.address).say(0, "private")
    (part,) = (run / "reviews").glob("*.parquet")
    good = part.read_bytes()
    labels = pq.read_table(part)
    wrong = labels.set_column(labels.schema.get_field_index("answer"), "answer", pa.array(["<b>secret</b>"]))
    pq.write_table(wrong, part)
    other, late = pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_table(wrong.drop_columns(["answered_at"]), other)
    at = REVIEWS_SCHEMA.field("answered_at")
    pq.write_table(labels.set_column(labels.num_columns - 1, at, pa.array([2**62]).cast(at.type)), late)
    damaged = (other.getvalue().to_pybytes(), late.getvalue().to_pybytes())
    for content in (part.read_bytes(), good[: len(good) // 2], b"", *damaged):
        part.write_bytes(content)
        with pytest.raises(LabelsError, match="part of a review") as refused:
            read_labels(str(run / "reviews"))
        assert "secret" not in str(refused.value)
        assert "\n" not in str(refused.value)
    with pytest.raises(LabelsError, match="is a folder without answers of a review"):
        read_labels(str(tmp_path))
    assert set(labels.column_names) == set(REVIEWS_SCHEMA.names)


def test_the_commands_take_the_folder_as_labels(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews = run / "reviews"
    with served(run) as server:
        ana, ben = Person(server.address, "ana"), Person(server.address, "ben")
        for person, of_last in ((ana, "private"), (ben, "public")):
            for number in range(6):
                person.say(number, ("private", "public")[number % 2] if number < 5 else of_last)
    joined = run_consensus(ConsensusRequest((str(reviews),), str(tmp_path / "one.parquet")))
    assert sorted(joined.labels["private"].fill_null(9).to_pylist()) == [0, 0, 1, 1, 1, 9]  # null where they differ
    assert privsieve("labels", "agreement", reviews, "--format", "json") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["annotators"] == ["ana", "ben"]
    assert privsieve("evaluate", run, "--labels", reviews) == 2  # two people: a consensus first
    assert "labels consensus" in capsys.readouterr().err
    (part,) = reviews.glob("*.parquet")
    pq.write_table(pq.read_table(part).filter(pc.field("annotator") == "ben"), part)
    assert privsieve("evaluate", run, "--labels", reviews) == 0
    assert "6 of 6 rows have a label" in capsys.readouterr().out
    out = tmp_path / "set"
    assert privsieve("tune", "set", source_of(run), "--labels", reviews, "--target", "binary", "--out", out) == 0
    capsys.readouterr()
    assert privsieve("labels", "export", reviews, "--format", "csv", "--out", tmp_path / "l.csv") == 0
    assert read_labels(str(tmp_path / "l.csv")).num_rows == 6


def test_known_answers_are_mixed_in_and_counted_for_the_owner_or_at_the_end(run: Path, tmp_path: Path) -> None:
    contents = files(6)
    gold = to_labels(
        {"sha256": [sha256(contents[f"{n:03d}.png"]) for n in (0, 1)], "annotator": ["us"] * 2, "private": [1, 0]}, 2
    )
    write_labels(gold, str(tmp_path / "gold.parquet"), LabelsOrigin("hand"))
    others = "key NOT IN ('000', '001')"
    with served(run, others, gold=str(tmp_path / "gold.parquet"), gold_share=0.2, reviewer="owner") as server:
        assert len(server.page.asking.hashes) == 5  # four, and one of the two as a fifth of all
        ben = Person(server.address, "ben")
        known = next(n for n, one in enumerate(server.page.asking.hashes) if one in gold["sha256"].to_pylist())
        right = gold["private"][gold["sha256"].to_pylist().index(server.page.asking.hashes[known])].as_py()
        shown = ben.say(known, "public" if right else "private").json
        assert "gold" not in json.dumps(shown)
        assert ben.get("/api/progress").json["known"] is None
        assert Person(server.address).get("/api/progress").json["known"] == {"ben": [0, 1]}
        ben.say_all("skip")
        assert ben.get("/api/progress").json["known"] == {"ben": [0, 1]}
    stored = read_reviews(place(str(run / "reviews")))
    assert dict(zip(stored["is_gold"].to_pylist(), stored["answer"].to_pylist(), strict=True))[False] == "skip"
    assert sum(stored["is_gold"].to_pylist()) == 1


def test_known_answers_are_mixed_in_as_many_private_as_public_ones(run: Path, tmp_path: Path) -> None:
    """Else who always says private is right on most checks."""
    private = {sha256(content): int(name != "005.png") for name, content in files(6).items()}
    columns: dict[str, Sequence[object]] = {
        "sha256": list(private),
        "annotator": ["us"] * 6,
        "private": list(private.values()),
    }
    write_labels(to_labels(columns, 6), str(tmp_path / "gold.parquet"), LabelsOrigin("hand"))
    for seed in range(3):
        with served(
            run, "key IN ('000', '001')", gold=str(tmp_path / "gold.parquet"), gold_share=0.5, seed=seed
        ) as one:
            assert len(one.page.asking.hashes) == 4
            assert [sha256 for sha256 in one.page.asking.hashes if not private[sha256]] == [*private][5:]


@pytest.mark.slow
def test_everybody_is_asked_the_pictures_for_a_second_look_first(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(40))
    assert privsieve("audit", "sample", run, "--n", 1000, "--seed", 3, "--out", tmp_path / "list.csv") == 0
    sample = read_sample(place(str(run)))
    second = {
        sha256
        for sha256, is_second in zip(sample.table["sha256"].to_pylist(), sample.is_for_second_look, strict=True)
        if is_second
    }
    assert 1 <= len(second) < 20
    with served(run, queue="audit") as server:
        asking = server.page.asking
        orders = [[asking.hashes[number] for number in asking.left(name)] for name in ("ana", "ben")]
        assert orders[0] != orders[1]
        for order in orders:
            assert set(order[: len(second)]) == second
        ana, ben = (Person(server.address, name) for name in ("ana", "ben"))
        ana.say_all("public")
        for number in ben.next()[: len(second)]:
            ben.say(number, "private")
        enough = ben.get("/api/progress").json["enough"]
    assert (enough["second_look"], enough["twice"]) == (len(second), len(second))


def test_the_access_log_says_which_picture_was_sent_to_whom(run: Path) -> None:
    with served(run) as server:
        ana, ben = (Person(server.address, name) for name in ("ana", "ben"))
        hashes = server.page.asking.hashes
        for person, number in ((ana, 0), (ben, 2), (ana, 0)):
            person.look(number)
        ana.say(1, "public")
    (log,) = (pq.read_table(part) for part in (run / "reviews" / "shown").glob("*.parquet"))
    sent = [(row["reviewer"], row["sha256"]) for row in log.to_pylist()]
    assert sent == [("ana", hashes[0]), ("ben", hashes[2]), ("ana", hashes[0]), ("ana", hashes[1])]
    assert log["sent_at"].to_pylist() == sorted(log["sent_at"].to_pylist())
    assert read_reviews(place(str(run / "reviews"))).num_rows == 1


def test_a_picture_is_not_sent_if_the_access_log_cannot_be_written(run: Path) -> None:
    with served(run) as server:
        ana = Person(server.address, "ana")
        (run / "reviews").write_text("no folder")
        answer = ana.get("/api/picture/0")
        assert (answer.status, answer.headers["content-type"]) == (503, "application/json")


@pytest.mark.slow
def test_a_labels_file_is_a_queue_of_a_review(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = files(6)
    run = run_of(tmp_path, pictures)
    hashes = [sha256(content) for content in pictures.values()]
    named = to_labels(
        {"sha256": [hashes[4], None, "0" * 64], "key": [None, "001", None], "annotator": ["to check"] * 3}, 3
    )
    write_labels(named, str(tmp_path / "list.parquet"), LabelsOrigin("csv"))
    with served(run, str(tmp_path / "list.parquet"), reviewer="ana") as server:
        assert set(server.page.asking.hashes) == {hashes[4], hashes[1]}
        assert Person(server.address).say_all("private") == 2
    assert read_labels(str(run / "reviews"))["private"].to_pylist() == [1, 1]
    with served(run, str(tmp_path / "list.parquet"), num_pictures=1) as server:
        assert server.page.asking.hashes == [hashes[4]]  # the first of the list
    (tmp_path / "none.csv").write_text("key\nelsewhere.png\n")
    assert privsieve("review", run, "--queue", tmp_path / "none.csv") != 0
    assert "holds no picture that" in capsys.readouterr().err
