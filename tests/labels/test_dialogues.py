"""Conversations that a model writes about labelled pictures, with a server in place of the model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.labelling.dialogues import NO_ANSWER
from scoring.tuning.dialogues import FOUND_TEXT, NO_FORM, NO_PRIVACY, turns_of
from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.made import privsieve
from tests.tuning_sets import made


def written(*answers: str) -> str:
    return json.dumps({"turns": [{"question": "What is it?", "answer": answer} for answer in answers]})


PRIVATE = written("A document on a desk.", "It holds private information of the kind of an identity document.")
PUBLIC = written("A bridge. Nothing in it is private, since no person can be seen.")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    running.by_words = {
        "labelled this picture as private": Reply(text=f"```json\n{PRIVATE}\n```"),
        "labelled this picture as public": Reply(text=PUBLIC),
    }
    running.usage = {"prompt_tokens": 500, "completion_tokens": 60}
    yield running
    running.close()


@pytest.fixture
def asked(server: ChatServer, tmp_path: Path) -> list[object]:
    """The command for six labelled pictures, without --yes."""
    pictures = made.files(6)
    labels = made.by_hash(
        tmp_path / "labels.parquet", pictures, private=[1, 0] * 3, **{"class": ["passport", None] * 3}
    )
    source = made.tree(tmp_path / "pictures", pictures)
    given = ("--labels", labels, "--out", tmp_path / "dialogues.jsonl", "--quiet")
    engine = ("--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl")
    return ["labels", "build", "dialogues", source, *given, *engine]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_cost_is_shown_before_and_nothing_is_sent(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve(*asked, "--price-in", 2, "--price-out", 10) == 0
    shown = capsys.readouterr().out
    assert "6 labelled pictures: 3 private, 3 public; 0 asked about before, 6 to ask about" in shown
    assert "about 3,003 tokens to read and 1,500 to write, cost about 0.02" in shown
    assert "nothing was sent; --yes sends the pictures" in shown
    assert server.bodies == []
    assert not (tmp_path / "dialogues.jsonl").exists()


def test_an_engine_without_a_model_writes_nothing(asked: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve(*asked[: asked.index("--engine")], "--engine", "detectors", "--yes") == 2
    assert capsys.readouterr().err.startswith("privsieve: name the --model that writes, of an engine that has one")


def test_what_is_written_becomes_a_training_set(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve(*asked, "--yes") == 0
    shown = capsys.readouterr().out
    assert "6 conversations in" in shown
    # Private: two turns, 6 words of the user, 16 of the assistant; public: one turn, 3 and 13.
    assert (
        "per conversation (mean ± standard deviation): turns 1.5 ± 0.5, words of the user 4.5 ± 1.6, words of the "
        "assistant 14.5 ± 1.6\n"
    ) in shown
    assert "tokens as reported: generated 360, prompt 3,000" in shown
    texts = [json.dumps(body["messages"]) for body in server.bodies]
    assert sum('private, class \\"passport' in text for text in texts) == 3
    file = tmp_path / "dialogues.jsonl"
    assert [turn["role"] for turn in lines(file)[0]["turns"]] == ["user", "assistant"] * 2
    assert not Path(f"{file}.part").exists()
    made_set = ("tune-set", asked[3], "--labels", asked[5], "--target", "dialogue", "--dialogues", file)
    assert privsieve(*made_set, "--out", tmp_path / "set", "--validation", 0, "--quiet") == 0
    assert "6 usable" in capsys.readouterr().out


def test_an_interrupted_command_continues_where_it_was(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.by_words["labelled this picture as public"] = Reply(text="I will not.")
    assert privsieve(*asked, "--yes") == 2
    part = tmp_path / "dialogues.jsonl.part"
    written_before = [line for line in part.read_text().splitlines() if "left_out" not in line]
    part.write_text("\n".join([*written_before, '{"sha256": "cut']))  # as a kill in the middle of a line leaves it
    server.by_words["labelled this picture as public"] = Reply(text=PUBLIC)
    num_asked = len(server.bodies)
    capsys.readouterr()
    assert privsieve(*asked, "--yes") == 0
    assert "3 asked about before, 3 to ask about" in capsys.readouterr().out
    assert len(server.bodies) == num_asked + 3
    assert len(lines(tmp_path / "dialogues.jsonl")) == 6


def test_pictures_without_an_answer_are_asked_about_again(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.by_words["labelled this picture as public"] = Reply((401,), for_ever=True)
    assert privsieve(*asked, "--yes") == 2
    part = tmp_path / "dialogues.jsonl.part"
    begun, first, *others = part.read_text().splitlines()
    first = json.dumps({"sha256": json.loads(first)["sha256"], "left_out": NO_ANSWER})
    part.write_text("".join(f"{line}\n" for line in (begun, first, *others)))
    server.by_words["labelled this picture as public"] = Reply(text=PUBLIC)
    capsys.readouterr()
    assert privsieve(*asked, "--yes") == 0
    assert "2 asked about before, 4 to ask about" in capsys.readouterr().out
    assert len(lines(tmp_path / "dialogues.jsonl")) == 6


def test_a_file_that_cannot_be_written_costs_no_answers(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert privsieve(*asked, "--yes", "--out", tmp_path / "file" / "dialogues.jsonl") == 2
    assert "cannot be written" in capsys.readouterr().err
    assert server.bodies == []


@pytest.mark.parametrize("left", [b"", b'{"asked": {"eng'])
def test_a_command_that_was_killed_before_its_first_line_begins_again(
    left: bytes, asked: list[object], tmp_path: Path
) -> None:
    (tmp_path / "dialogues.jsonl.part").write_bytes(left)
    assert privsieve(*asked, "--yes") == 0
    assert len(lines(tmp_path / "dialogues.jsonl")) == 6


def test_the_part_of_another_request_is_refused(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.by_words["labelled this picture as public"] = Reply(text="I will not.")
    assert privsieve(*asked, "--yes") == 2
    capsys.readouterr()
    assert privsieve(*asked, "--yes", "--seed", 1) == 2
    assert "was begun with another model, labels or seed" in capsys.readouterr().err


def test_conversations_of_one_side_only_are_no_training_set(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.by_words["labelled this picture as private"] = Reply(text=written("It is private: Jane Doe lives there."))
    assert privsieve(*asked, "--yes") == 2
    assert "3 conversations were kept, and not of both private and public pictures" in capsys.readouterr().err
    part = (tmp_path / "dialogues.jsonl.part").read_text()
    assert part.count(FOUND_TEXT) == 3
    assert "Jane" not in part
    assert not (tmp_path / "dialogues.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I will not do that.", NO_FORM),
        ('{"turns": []}', NO_FORM),
        ('{"turns": [{"question": "Why?", "answer": 3}]}', NO_FORM),
        (written("Private. <image>"), NO_FORM),
        (written("Private. \ud800"), NO_FORM),
        (written("A nice bridge."), NO_PRIVACY),
        (written('Private: it says "Elm".'), FOUND_TEXT),
        (written("Private: the number is 4711."), FOUND_TEXT),
        (written("Private: mail ana@example.org."), FOUND_TEXT),
    ],
)
def test_a_conversation_that_is_not_fit_is_left_out_with_its_reason(text: str, reason: str) -> None:
    assert turns_of(text) == reason
