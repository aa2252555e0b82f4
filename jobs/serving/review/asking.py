"""Decides who is asked about which picture next, and keeps what they answered. What a browser may send is declared
here; everything else is refused before it is used."""

import hashlib
import json
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ingest.errors import PrivsieveError
from jobs.serving.review.queue import Judged, Queue
from jobs.serving.shown import Screen, ScreenedPicture
from reports.evaluation.answers import answers_of
from reports.words import first_frame_boxes
from scoring.labels.label_files import PRIVATE_VOTES, VOTES
from scoring.labels.reviews import (
    ANSWERS,
    MAX_BOXES_CHARS,
    MAX_SECONDS,
    NO,
    OF_ATTRIBUTES,
    OF_CLASS,
    OF_VOTE,
    SKIP,
    UNDO,
    YES,
    ReviewAnswers,
    ReviewedBox,
    standing,
)
from scoring.privacy import PRIVATE_CLASSES
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS

CLASSES = {name: rule for name, (rule, _) in PRIVATE_CLASSES.items()} | {"public": "none of these"}
"""Class of PrivBench -> when a picture is of it."""

MAX_BODY_BYTES = 2**16
MAX_BOXES = 64


def _one_of(known: Collection[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise ValueError("unknown")
        return value

    return AfterValidator(check)


def _of_all_attributes(values: dict[str, float | None]) -> dict[str, float | None]:
    if set(values) != set(KEYS) or not set(values.values()) <= {0, 0.5, 1, None}:
        raise ValueError("every attribute once, 0, 0.5, 1 or null")
    return values


class PostedAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    number: Annotated[int, Field(ge=0)]
    """Number of the picture, as the server gave it."""

    answer: Annotated[str, _one_of(ANSWERS)]

    values: Annotated[dict[str, float | None], AfterValidator(_of_all_attributes)] | None = None
    """Each attribute -> 0, 0.5 or 1, None if the person cannot say."""

    choice: Annotated[str, _one_of({*VOTES, *CLASSES})] | None = None
    """The vote or the class of the picture."""

    boxes: Annotated[list[ReviewedBox], Field(max_length=MAX_BOXES)] | None = None
    """None if the person changed none."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


ANSWERS_TO: Mapping[Judged, tuple[str, ...]] = {
    "private": ("private", "public"),
    "classes": (OF_CLASS,),
    "votes": (OF_VOTE,),
    "attributes": (OF_ATTRIBUTES,),
    "question": (YES, NO),
}
"""What is asked -> answers to it alone."""

AHEAD = 10
"""Pictures that are loaded before the person comes to them."""


class AnswerError(PrivsieveError):
    """An answer that cannot be saved."""


class Asking:
    """The pictures of a queue by number, and the answers to them. For several threads."""

    def __init__(
        self,
        queue: Queue,
        rows: pa.Table,
        gold: frozenset[str],
        judged: Judged,
        answers: ReviewAnswers,
        screen: Screen,
        engine: Mapping[str, Any],
        again: bool,
        is_blind: bool,
        seed: int,
        assigned: Mapping[str, frozenset[str]] | None = None,
    ):
        """Keep the rows, and read the answers that were saved before. rows: of the queue, and others with a known
        answer. gold: sha256 of all that have one. assigned: person -> sha256 of pictures that only the people named
        there are asked; None if everybody is asked everything. is_blind: people never see what the engine says."""
        self.rows, self.kind, self.judged, self.answers, self.screen = rows, queue.kind, judged, answers, screen
        self.hashes: list[str] = rows[Col.SHA256].to_pylist()
        self.num_saved, self.is_blind = 0, is_blind
        self._gold, self._seed, self._assigned = gold, seed, assigned
        self._first = queue.for_second_look  # everybody is asked these first, so that several people judge them
        self._lock = threading.Lock()
        self._orders = dict[str, list[int]]()
        self._given = defaultdict[str, dict[str, str]](dict)
        self._model = answers_of(rows, engine)
        answers.refresh()
        if not again:
            others = {answer for asked, answers_ in ANSWERS_TO.items() if asked != judged for answer in answers_}
            kept = standing(answers.table())
            columns = (kept[name].to_pylist() for name in ("annotator", "sha256", "answer"))
            for name, sha256, answer in zip(*columns, strict=True):
                if answer not in others:  # it is to this question, or says that the picture was skipped
                    self._given[name][sha256] = answer

    def refuse_stranger(self, reviewer: str) -> None:
        """Raise AnswerError for a person whom `assigned` does not name."""
        if self._assigned is not None and reviewer not in self._assigned:
            raise AnswerError("this name is not in the list of --assign; give it as it is there")

    def of_person(self, reviewer: str) -> list[int]:
        """Return the numbers of the pictures that the person is asked in all."""
        if self._assigned is None:
            return list(range(len(self.hashes)))
        wanted = self._assigned.get(reviewer, frozenset()) | self._gold
        return [number for number, sha256 in enumerate(self.hashes) if sha256 in wanted]

    def left(self, reviewer: str) -> list[int]:
        """Return the pictures that the person was not asked yet, in the person's own order."""
        with self._lock:
            order = self._orders.get(reviewer)
            if order is None:
                marks = [
                    (sha256 not in self._first, hashlib.sha256(f"{self._seed}/{reviewer}/{sha256}".encode()).digest())
                    for sha256 in self.hashes
                ]
                order = self._orders[reviewer] = sorted(self.of_person(reviewer), key=lambda number: marks[number])
            done, states = self._given[reviewer], self.screen.states()
            return [n for n in order if self.hashes[n] not in done and states.get(n, "shown") == "shown"]

    def next(self, reviewer: str) -> list[int]:
        """Return the next pictures, and begin to load them."""
        rest = self.left(reviewer)
        self.screen.prepare(rest[:AHEAD], rest[AHEAD:])
        return rest[:AHEAD]

    def ask_skipped(self, reviewer: str) -> None:
        """Ask again what the person skipped. Nothing is saved before they answer."""
        with self._lock:
            given = self._given[reviewer]
            self._given[reviewer] = {sha256: answer for sha256, answer in given.items() if answer != SKIP}

    def given(self, reviewer: str) -> Counter[str]:
        """Return how often the person gave each answer to the queue's pictures; what was taken back does not count."""
        with self._lock:
            answers = self._given[reviewer]
            hashes = (self.hashes[number] for number in self.of_person(reviewer))
            return Counter(answers[sha256] for sha256 in hashes if sha256 in answers)

    def people(self) -> list[str]:
        """Return the people who answered or skipped at least one picture of the queue."""
        return sorted(name for name in list(self._given) if self.given(name))

    def picture(self, reviewer: str, number: int) -> ScreenedPicture:
        """Return a picture for a person, once the access log says so. StorageError, and no picture, if it cannot."""
        picture = self.screen.picture(number)
        if picture.state == "shown":
            self.answers.log_shown(reviewer, self.hashes[number], self.rows[Col.KEY][number].as_py())
        return picture

    def save(self, reviewer: str, posted: PostedAnswer) -> dict[str, Any]:
        """Save the answer. Return what the model said, but only to a person who judged the picture, and nothing if
        people are to answer blind. AnswerError if it is to another question."""
        if posted.number >= len(self.hashes) or self.screen.state(posted.number) != "shown":
            raise AnswerError("this picture is not shown; load the page again")
        self._check(posted)
        if posted.number not in self.of_person(reviewer):
            raise AnswerError("this picture is not assigned to you; load the page again")
        sha256 = self.hashes[posted.number]
        self.answers.add(
            {
                "sha256": sha256,
                "key": self.rows[Col.KEY][posted.number].as_py(),
                "annotator": reviewer,
                "private": {"private": 1, "public": 0}.get(_side(posted)),
                "vote": posted.choice if posted.answer == OF_VOTE else None,
                "class": posted.choice if posted.answer == OF_CLASS else None,
                **(posted.values or {}),
                "answer": posted.answer,
                "seconds": None if posted.seconds is None else min(posted.seconds, MAX_SECONDS),
                "boxes": self._boxes(posted),
                "queue": self.kind,
                "is_gold": sha256 in self._gold,
            }
        )
        with self._lock:
            self.num_saved += 1
            if posted.answer == UNDO:
                self._given[reviewer].pop(sha256, None)
            else:
                self._given[reviewer][sha256] = posted.answer
        return {} if posted.answer in (UNDO, SKIP) or self.is_blind else self.model_answer(posted.number)

    def _check(self, posted: PostedAnswer) -> None:
        if posted.answer not in (*ANSWERS_TO[self.judged], "unclear", SKIP, UNDO):
            raise AnswerError("this answer is to another question; load the page again")
        offered = {OF_VOTE: list[str | None](VOTES), OF_CLASS: list[str | None](CLASSES)}
        if posted.choice not in offered.get(posted.answer, [None]):
            raise AnswerError("a vote or class belongs to an answer of this name, and to no other")
        if (posted.values is not None) != (posted.answer == "attributes"):
            raise AnswerError("values belong to an answer about attributes, and to no other")
        for key, value in (posted.values or {}).items():
            if value == 0.5 and next(a for a in ATTRIBUTES if a.key == key).ambiguous is None:
                raise AnswerError(f"{key} is 0 or 1, or not judged: the taxonomy names no unclear case of it")

    def _boxes(self, posted: PostedAnswer) -> str | None:
        if posted.boxes is None:
            return None
        text = json.dumps([box.model_dump() for box in posted.boxes], separators=(",", ":"))
        if len(text) > MAX_BOXES_CHARS:
            raise AnswerError("these are too many boxes for one picture; remove some")
        return text

    def model_answer(self, number: int) -> dict[str, Any]:
        """Return what the run says of a picture, for a person who has judged it. JSON types."""
        row = self.rows.slice(number, 1).to_pylist()[0]
        values = [
            {"attribute": key, "value": row[key], "probability": _number(row[Col.prob(key)])}
            for key in KEYS
            if row[key] is not None and row[key] > 0
        ]
        return {
            "key": row[Col.KEY],
            "category": row[Col.CATEGORY],
            "private": _number(self._model.private[number]),
            "probability": _number(row[Col.PROB_PRIVATE]),
            "level": row[Col.LEVEL],
            "attributes": values,
            "rationale": row[Col.RATIONALE],
            "num_frames": row[Col.NUM_FRAMES],
            "boxes": [{**box, "by": "model"} for box in first_frame_boxes(row[Col.BOXES])],
        }


def _side(posted: PostedAnswer) -> str:
    if posted.choice is None:
        return posted.answer
    return "private" if posted.choice in {*PRIVATE_VOTES, *PRIVATE_CLASSES} else "public"


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), 4)
