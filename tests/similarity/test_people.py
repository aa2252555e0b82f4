"""`privsieve similarity ask` and `votes`: people say what they recognise, and the majority counts."""

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.serving.local_server import LocalServer
from jobs.similarity.asking import Choices, study_of
from jobs.similarity.asking_page import serving
from jobs.similarity.comparing import PicturePlace
from jobs.similarity.questions import ShownOriginal, questions_of
from jobs.similarity.request import Asked, AskRequest
from scoring.labels.recognition import QUESTIONS_SCHEMA, keep_questions, read_questions, study_answers
from scoring.labels.reviews import SHOWN
from tests.jobs.made import privsieve
from tests.reviewing.made import Person
from tests.similarity.made import folder, png, scene

FIVE = ("ana", "ben", "cleo", "dan", "eva")

QUESTION = {
    "set": "blur",
    "key": "a",
    "is_decoy": False,
    "candidates": '["a"]',
    "sha256": "0" * 64,
    "changed_sha256": "1" * 64,
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("originals") / "photos", 6)


def asked(originals: Path, out: Path, **more: Any) -> AskRequest:
    methods = more.pop("methods", ("pixelate=4", "invert=1"))
    return AskRequest(originals=str(originals), out=str(out), methods=methods, **more)


@contextmanager
def served(request: AskRequest) -> Iterator[LocalServer[Choices]]:
    with serving(request) as server, server.in_background():
        yield server


def answer_all(server: LocalServer[Choices], name: str, recognised: set[str]) -> None:
    """A person who chooses the own original of each changed picture of these sets, else none."""
    person, questions = Person(server.address, name), server.page.study.questions
    while shown := person.get("/api/next").json["questions"]:
        for number in (one["number"] for one in shown):
            question = questions[number]
            body: dict[str, object] = {"number": number, "answer": "none", "seconds": 1.5}
            if not question.is_decoy and question.set_name in recognised:
                body |= {"answer": "candidate", "place": question.candidates.index(question.original) + 1}
            assert person.post("/api/answer", body).status == 200


def counted(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    assert privsieve("similarity", "votes", *args, "--format", "json") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_every_question_has_the_own_original_once_and_a_seed_gives_the_same_draw(
    originals: Path, tmp_path: Path
) -> None:
    study = study_of(asked(originals, tmp_path, num_candidates=4))
    assert len(study.questions) == 12
    for question in study.questions:
        assert len(set(question.candidates)) == 4
        assert question.original in question.candidates
    at = [question.candidates.index(question.original) for question in study.questions]
    assert len(set(at)) > 1, "its place must not give it away"
    assert study.table().equals(study_of(asked(originals, tmp_path, num_candidates=4)).table())
    assert not study.table().equals(study_of(asked(originals, tmp_path, num_candidates=4, seed=1)).table())


def test_pairs_have_decoys_of_another_original_for_a_fifth_of_all(originals: Path, tmp_path: Path) -> None:
    study = study_of(asked(originals, tmp_path, asked="pairs"))
    decoys = [question for question in study.questions if question.is_decoy]
    assert (len(study.questions), len(decoys)) == (15, 3)
    assert {len(question.candidates) for question in study.questions} == {1}
    few = study_of(asked(originals, tmp_path, decoys=0.2))
    assert {(question.is_decoy, len(question.candidates)) for question in few.questions} == {(True, 5), (False, 5)}


def test_classes_are_folders_and_each_is_offered_once(tmp_path: Path) -> None:
    for number, name in enumerate(["cat", "cat", "dog", "owl"]):
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        scene(number).save(tmp_path / "photos" / name / f"{number}.png")
    with served(asked(tmp_path / "photos", tmp_path / "study", asked="classes", reviewer="ana")) as server:
        person = Person(server.address)
        for shown in person.get("/api/next").json["questions"]:
            assert sorted(shown["candidates"]) == ["cat", "dog", "owl"]
            assert person.get(f"/api/picture/{shown['number']}/1").status == 404
            assert person.get(f"/api/picture/{shown['number']}/0").headers["content-type"] == "image/jpeg"


def test_what_is_not_asked_is_counted_and_another_shape_is_said(originals: Path, tmp_path: Path) -> None:
    tall = {"a/tall.png": png(scene(9).resize((100, 300)))}
    photos = folder(tmp_path / "photos", 6, others=tall)
    grey = {name: png(Image.open(photos / name).convert("L")) for name in tall}
    release = folder(tmp_path / "release", 5, lambda image: image.convert("L"), grey)
    (release / "a" / "0.png").write_bytes((photos / "a" / "0.png").read_bytes())
    (release / "a" / "1.png").write_bytes(b"no picture")
    hashes = tmp_path / "hashes.txt"
    hashes.write_text("sha256 " + hashlib.sha256((photos / "a" / "2.png").read_bytes()).hexdigest() + "\n")
    request = AskRequest(
        originals=str(photos), changed=(str(release),), out=str(tmp_path), num_candidates=3, hash_list=str(hashes)
    )
    study = study_of(request)
    assert study.left_out == {"equal": 1, "unreadable": 1, "withheld": 1, "without a changed picture": 1}
    assert len(study.questions) == 3
    assert study.num_other_shapes == 1, "the tall one; the others have enough of their own shape"


def test_a_browser_learns_neither_the_set_nor_the_key_nor_what_is_right(originals: Path, tmp_path: Path) -> None:
    with served(asked(originals, tmp_path / "study", reviewer="ana", num_candidates=3)) as server:
        person = Person(server.address)
        shown = person.get("/api/next")
        assert set(shown.json["questions"][0]) == {"number", "candidates"}
        number = shown.json["questions"][0]["number"]
        said = [person.get("/api/state"), shown, person.post("/api/answer", {"number": number, "answer": "none"})]
        assert said[-1].json == {}
        assert not any(word in answer.content for answer in said for word in (b"pixelate", b"invert", b"a/"))
        question = server.page.study.questions[number]
        pictures = [person.get(f"/api/picture/{number}/{at}") for at in range(4)]
        assert {Image.open(io.BytesIO(one.content)).size for one in pictures} == {(320, 240)}
        own = np.asarray(Image.open(io.BytesIO(pictures[1 + question.candidates.index(question.original)].content)))
        drawn = server.page.study.originals[question.original].key.rpartition("/")[2]
        assert np.abs(own.astype(int) - np.asarray(scene(int(drawn)))).mean() < 8
        assert person.get(f"/api/picture/{number}/4").status == 404
        for body in (
            {"number": 99, "answer": "none"},
            {"number": 0, "answer": "candidate"},
            {"number": 0, "answer": "x"},
        ):
            assert person.post("/api/answer", body).status == 400
    logged = pq.read_table(tmp_path / "study" / SHOWN).to_pylist()
    assert {row["reviewer"] for row in logged} == {"ana"}
    assert f"{question.set_name}/a/{drawn}" in {row["key"] for row in logged}


@pytest.mark.slow
def test_five_people_vote_the_majority_counts_and_rank_reads_it(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = ("pixelate=4", "noise=25", "invert=1")
    study, votes, pairs = tmp_path / "study", tmp_path / "votes.csv", tmp_path / "pairs.parquet"
    given = [option for method in methods for option in ("--method", method)]
    assert privsieve("similarity", "compare", originals, *given, "--sample", 3, "--out", pairs, "--quiet") == 0
    with served(asked(originals, study, asked="pairs", methods=methods, sample=3)) as server:
        for number, name in enumerate(FIVE):  # three of five recognise noise, two the negative, nobody the rest
            answer_all(server, name, {"noise=25"} if number < 3 else {"invert=1"})
        assert Person(server.address, "fay").get("/api/next").json["questions"] == [], "each pair has five votes"
        assert [person.in_words for person in server.page.tallies()] == ["all 11 pictures answered"] * 5
    capsys.readouterr()
    result = counted(capsys, study, "--out", votes)
    assert {each["name"]: (each["num_recognised"], each["num_not"]) for each in result["sets"]} == {
        "noise=25": (3, 0),
        "invert=1": (0, 3),
        "pixelate=4": (0, 3),
    }
    assert {(each["num_decoys_right"], each["num_decoys"]) for each in result["people"]} == {(2, 2)}
    assert len(votes.read_text().splitlines()) == 1 + 5 * 9
    assert privsieve("similarity", "rank", pairs, "--labels", votes, "--format", "json") == 0
    ranked = json.loads(capsys.readouterr().out)["collections"][0]
    assert {each["name"]: each["recognised"] for each in ranked["sets"]} == {
        "noise=25": 1,
        "invert=1": 0,
        "pixelate=4": 0,
    }
    assert (ranked["num_tied"], ranked["num_without_answer"]) == (0, 0)
    assert ranked["metrics"]["mse"]["of_sets"]["kendall"] == pytest.approx(2 / 6**0.5)


def test_ties_and_missing_votes_are_counted_and_people_who_guess_are_left_out(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"
    with served(asked(originals, study, asked="pairs", methods=("invert=1",), sample=4, decoys=0.2)) as server:
        questions = server.page.study.questions
        numbers = {question.original: n for n, question in enumerate(questions) if not question.is_decoy}
        decoy = next(n for n, question in enumerate(questions) if question.is_decoy)
        yes: dict[str, object] = {"answer": "candidate", "place": 1}
        no: dict[str, object] = {"answer": "none"}
        skip: dict[str, object] = {"answer": "skip"}
        for name, answers in {"ana": [yes, yes, yes], "ben": [yes, no, skip], "guess": [no, no, yes]}.items():
            person = Person(server.address, name)
            for original, answer in enumerate(answers):
                assert person.post("/api/answer", {"number": numbers[original], **answer}).status == 200
            person.post("/api/answer", {"number": decoy, **(yes if name == "guess" else no)})
        undone = {"number": numbers[3], "answer": "undo"}
        assert person.post("/api/answer", {"number": numbers[3], **yes}).status == 200
        assert person.post("/api/answer", undone).status == 200
    result = counted(capsys, study, "--min-votes", 2, "--min-attention", 1)
    of_set = result["sets"][0]
    assert of_set == {
        "name": "invert=1",
        "num_recognised": 1,
        "num_not": 0,
        "num_tied": 1,
        "num_few": 1,
        "num_without": 1,
    }
    assert {each["name"]: each["is_left_out"] for each in result["people"]} == {"ana": 0, "ben": 0, "guess": 1}
    assert privsieve("similarity", "votes", study) == 0
    said = capsys.readouterr().out
    assert "4 pairs of 1 set, by majority; undecided: 3 with fewer than 5 votes, 1 without a vote" in said
    assert privsieve("similarity", "votes", study, "--out", tmp_path / "v.csv") == 2
    assert "no pair has 5 votes; see --min-votes" in capsys.readouterr().err
    assert not (tmp_path / "v.csv").exists()


def test_a_study_goes_on_with_the_same_questions_only(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = asked(originals, tmp_path / "study", num_candidates=3, once=True)
    with served(request) as server:
        person = Person(server.address, "ana")
        shown = person.get("/api/next").json
        assert shown["num_left"] == 6, "of two versions of an original she is asked about one"
        number = shown["questions"][0]["number"]
        assert person.post("/api/answer", {"number": number, "answer": "none", "seconds": 2}).status == 200
    with serving(request) as server:
        assert server.page.left("ana") == [n for n in server.page.left("ana") if n != number]
        assert len(server.page.left("ana")) == 5
    answers = study_answers(place(str(tmp_path / "study")))
    answers.refresh()
    row = answers.table().to_pylist()[0]
    assert (row["annotator"], row["answer"], row["recognised"], row["chosen"]) == ("ana", "none", 0, None)
    assert read_questions(place(str(tmp_path / "study"))).num_rows == 12
    again = ("similarity", "ask", originals, "--method", "invert=1", "--out", tmp_path / "study")
    assert privsieve(*again) == 2
    assert "holds answers to other questions" in capsys.readouterr().err
    assert privsieve("similarity", "votes", originals) == 2
    assert "is no folder of similarity ask --out" in capsys.readouterr().err


def test_a_study_is_of_one_set_of_pictures(tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos", 3)
    weak, strong = (folder(tmp_path / name / "release", 3, ImageOps.invert) for name in ("weak", "strong"))
    for number in range(3):
        (strong / "a" / f"{number}.png").write_bytes(png(scene(number).convert("L")))
    with serving(asked(photos, tmp_path / "study", changed=(str(weak),), methods=())) as server:
        choices = server.page
    others = asked(photos, tmp_path / "study", changed=(str(strong),), methods=())
    with pytest.raises(LabelsError, match="holds answers to other questions"), serving(others):
        pass
    (weak / "a" / "0.png").write_bytes((strong / "a" / "0.png").read_bytes())
    (photos / "a" / "1.png").write_bytes(png(scene(7)))
    states = {}
    for number, question in enumerate(choices.study.questions):
        picture = choices.picture("ana", number, 0)
        states[choices.study.originals[question.original].key] = picture and picture.state
    assert states == {"a/0": "changed", "a/1": "changed", "a/2": "shown"}
    assert len(choices.left("ana")) == 1, "what was written again since the draw is asked no more"


def test_answers_are_read_only_while_no_other_thread_saves(originals: Path, tmp_path: Path) -> None:
    class Locked(dict[Any, Any]):
        """Answers that may be gone through under the lock only."""

        def __iter__(self) -> Iterator[Any]:
            assert choices._lock.locked()
            return super().__iter__()

        def items(self) -> Any:
            assert choices._lock.locked()
            return super().items()

        def values(self) -> Any:
            assert choices._lock.locked()
            return super().values()

    with serving(asked(originals, tmp_path / "study", methods=("invert=1",))) as server:
        choices = server.page
    choices._given = Locked(ana=Locked({0: "none", 1: "skip"}))
    assert (len(choices.left("ana")), len(choices.left("ben"))) == (4, 6)
    assert choices.progress("ana")["num_skipped"] == 1
    assert [person.in_words for person in choices.tallies()] == ["1 of 6 pictures answered, 1 skipped, 4 left"]
    choices.ask_skipped("ana")
    assert len(choices.left("ana")) == 5


def test_votes_counts_one_vote_for_an_answer_whatever_a_part_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_questions(place(str(tmp_path)), pa.Table.from_pylist([QUESTION | {"asked": "pairs"}], schema=QUESTIONS_SCHEMA))
    answers = study_answers(place(str(tmp_path)))
    for name, chosen, recognised in (("ana", "a", 5), ("ben", None, 1), ("cleo", None, None)):
        said = {"answer": "none" if chosen is None else "candidate", "chosen": chosen, "recognised": recognised}
        answers.add({"set": "blur", "key": "a", "is_decoy": False, "annotator": name, **said})
    of_set = counted(capsys, tmp_path, "--min-votes", 3)["sets"][0]
    assert (of_set["num_recognised"], of_set["num_not"]) == (0, 1)


@pytest.mark.parametrize("questions", [[], [{"asked": "guesses"}], [{"asked": "pairs"}, {"asked": "classes"}]])
def test_votes_refuses_questions_that_are_none(
    questions: list[dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.Table.from_pylist([QUESTION | each for each in questions], schema=QUESTIONS_SCHEMA)
    keep_questions(place(str(tmp_path)), table)
    assert privsieve("similarity", "votes", tmp_path) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].endswith("questions.parquet: is damaged; restore it, or begin with another --out")


@pytest.mark.parametrize("column", ["set", "key", "asked", "candidates", "sha256", "changed_sha256"])
def test_votes_refuses_questions_with_text_that_is_not_utf_8(
    column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.Table.from_pylist([QUESTION | {"asked": "pairs"}], schema=QUESTIONS_SCHEMA)
    raw = pa.array([b"\xe0\x80"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    keep_questions(place(str(tmp_path)), table.set_column(table.column_names.index(column), column, [text]))
    assert privsieve("similarity", "votes", tmp_path) == 2
    assert capsys.readouterr().err.endswith("is damaged; restore it, or begin with another --out\n")


def shown(name: str, sha256: str, log_aspect: float = 0) -> ShownOriginal:
    return ShownOriginal(PicturePlace("a", {"index": 0}, name, name, name), name, sha256, log_aspect)


@pytest.mark.parametrize("asked", ["candidates", "classes"])
def test_originals_with_the_same_bytes_are_never_offered_together(asked: Asked) -> None:
    # In six folders: each has two copies of a picture, and one of the next folder's.
    photos = [shown(f"{n}/{copy}", str((n + copy // 2) % 6)) for n in range(6) for copy in range(3)]
    for decoy_share in (0, 0.5):
        questions = questions_of({"blur": dict.fromkeys(range(18), "")}, photos, asked, 20, decoy_share, seed=0)
        for question in questions:
            others = [photos[n] for n in question.candidates if n != question.original]
            num_others = 5 if asked == "candidates" else 4
            assert len(question.candidates) == num_others + (decoy_share == 0)
            names = [each.sha256 if asked == "candidates" else each.class_name for each in others]
            assert len(set(names)) == len(names)
            own = photos[question.original]
            right = {own.sha256} if asked == "candidates" else {e.class_name for e in photos if e.sha256 == own.sha256}
            assert not right & set(names), "a second right answer"


def test_drawing_is_quick_for_many_originals_and_keeps_to_their_shape() -> None:
    class Counted(list[ShownOriginal]):
        num_read = 0

        def __getitem__(self, n: Any) -> Any:
            self.num_read += 1
            return super().__getitem__(n)

    photos = Counted(shown(f"{n}", f"{n}", (n % 15) / 10) for n in range(300))
    questions = questions_of({"blur": dict.fromkeys(range(300), "")}, photos, "candidates", 20, 0, seed=0)
    assert photos.num_read < 100 * len(photos), "few looks at other originals for each question"
    assert all({n % 15 for n in question.candidates} == {question.original % 15} for question in questions)
    assert all(len(set(question.candidates)) == 20 for question in questions), "all twenty of a shape"
    fewer = questions_of({"blur": dict.fromkeys(range(300), "")}, photos, "candidates", 5, 0, seed=0)
    wrong = {n for question in fewer for n in question.candidates if n != question.original}
    assert len(wrong) > 280, "not the same few each time"
