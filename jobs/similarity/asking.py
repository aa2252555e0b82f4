"""Who is asked about which changed picture next, the pictures of a question, and what was answered.

A browser learns neither the set nor the key of a picture, nor which candidate is the right one.
"""

import hashlib
import json
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import simplejpeg
from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import PrivsieveError, SourceError
from ingest.images.pixels import Pixels
from jobs.runtime.hash_list import HashList, hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.review.progress import ReviewerTally
from jobs.serving.shown import ScreenedPicture
from jobs.similarity.changing import methods_of
from jobs.similarity.comparing import ChangedSet, Corpus, ReadPicture, drawn, read_picture, reduced, sets_of
from jobs.similarity.questions import Question, ShownOriginal, is_alike, questions_of
from jobs.similarity.request import Asked, AskRequest
from scoring.labels.recognition import CANDIDATE, QUESTION, QUESTIONS_SCHEMA, standing_answers
from scoring.labels.reviews import MAX_SECONDS, SKIP, UNDO, ReviewAnswers

AHEAD = 4
"""Questions that the page loads before the person comes to them."""

KEPT = 512
"""Pictures in memory, of at most about 150 KB."""

QUALITY = 95
"""Quality of the JPEG that a browser gets: it must not add to what was changed."""


class PostedChoice(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    number: Annotated[int, Field(ge=0)]
    answer: Literal["candidate", "none", "skip", "undo"]

    place: Annotated[int, Field(ge=1)] | None = None
    """Place of the chosen candidate, from 1."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class ChoiceError(PrivsieveError):
    """An answer that cannot be saved."""


@dataclass(frozen=True)
class Study:
    asked: Asked
    questions: Sequence[Question]
    originals: Sequence[ShownOriginal]
    sets: Mapping[str, ChangedSet]
    corpus: Corpus
    hash_list: HashList
    left_out: Mapping[str, int]
    """Why -> pairs that are not asked about."""

    def table(self) -> pa.Table:
        """Return the draw, with `QUESTIONS_SCHEMA`."""
        rows = [
            {
                "set": each.set_name,
                "key": self.originals[each.original].key,
                "is_decoy": each.is_decoy,
                "asked": self.asked,
                "candidates": json.dumps([self.originals[n].key for n in each.candidates]),
                "sha256": self.originals[each.original].sha256,
                "changed_sha256": each.changed_sha256,
            }
            for each in self.questions
        ]
        return pa.Table.from_pylist(rows, schema=QUESTIONS_SCHEMA)

    @property
    def num_other_shapes(self) -> int:
        """Questions in which the shape of the pictures gives away that a candidate is wrong."""
        return sum(
            not all(is_alike(self.originals[n], self.originals[each.original]) for n in each.candidates)
            for each in self.questions
        )


def study_of(request: AskRequest, feedback: Feedback = SILENT) -> Study:
    """Read the pictures and draw the questions. SourceError or StorageError of a corpus, or if there is no pair."""
    hash_list, originals = hash_list_of(request.hash_list), Corpus(request.originals)
    sets = sets_of(request.changed, methods_of(request.methods), originals, hash_list, request.seed)
    wanted = drawn(originals.places, request.sample, request.seed)
    candidates, left_out = list[ShownOriginal](), Counter[str]()
    pairs: dict[str, dict[int, str]] = {each.name: {} for each in sets}
    with feedback.meter("read", len(wanted)) as meter:
        for place in wanted:
            picture = read_picture(originals, place, hash_list)
            for each in sets:
                # A picture that is made in memory can be shown if its original can.
                changed = picture if each.corpus is None else each.changed(place, picture)
                if why := _not_asked(picture, changed, is_made=each.corpus is None):
                    left_out[why] += 1
                elif changed is not None:
                    pairs[each.name][len(candidates)] = changed.sha256
            if picture.pixels is not None and not picture.is_withheld:
                height, width = picture.pixels.shape[:2]
                key = originals.key_of(place)
                candidates.append(ShownOriginal(place, key, picture.sha256, math.log(height / width)))
            meter.advance(1)
    if not any(pairs.values()):
        raise SourceError(f"no changed picture can be shown for an original of {request.originals}; keys must be same")
    num_candidates = 1 if request.asked == "pairs" else request.num_candidates
    questions = questions_of(pairs, candidates, request.asked, num_candidates, request.decoy_share, request.seed)
    return Study(
        request.asked, questions, candidates, {each.name: each for each in sets}, originals, hash_list, left_out
    )


def _not_asked(original: ReadPicture, changed: ReadPicture | None, is_made: bool) -> str | None:
    if changed is None:
        return "without a changed picture"
    if original.is_withheld or changed.is_withheld:
        return "withheld"
    if original.pixels is None or changed.pixels is None:
        return "unreadable"
    return "equal" if not is_made and np.array_equal(original.pixels, changed.pixels) else None


class Choices:
    """The questions by number, and the answers to them. For several threads."""

    def __init__(self, study: Study, answers: ReviewAnswers, votes: int, once: bool, seed: int):
        """Read the answers that were saved before. votes: people that are asked each question. once: whether a person
        is asked about one version of an original only."""
        self.study, self.answers, self.num_saved = study, answers, 0
        self._votes, self._once, self._seed = votes, once, seed
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._numbers = {
            (each.set_name, study.originals[each.original].key, each.is_decoy): number
            for number, each in enumerate(study.questions)
        }
        self._jpeg = lru_cache(KEPT)(self._made_jpeg)
        self._given = dict[str, dict[int, str]]()
        self._gone = set[int]()
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes saved. LabelsError of a damaged part; StorageError if the storage fails."""
        self.answers.refresh()
        with self._lock:
            standing = standing_answers(self.answers)
            answer_of = defaultdict[str, dict[int, str]](dict)
            for *question, name, answer in zip(
                *(standing[column].to_pylist() for column in (*QUESTION, "annotator", "answer")), strict=True
            ):
                if (number := self._numbers.get((question[0], question[1], question[2]))) is not None:
                    answer_of[name][number] = answer
            self._given = dict(answer_of)

    def given(self) -> dict[str, dict[int, str]]:
        """Return person -> number of a question -> the answer that stands, as a copy: other threads save answers."""
        with self._lock:
            return {name: dict(answers) for name, answers in self._given.items()}

    def left(self, reviewer: str) -> list[int]:
        """Return the questions that the person is asked from now on, in the person's own order."""
        given = self.given()
        mine = given.get(reviewer, {})
        votes = Counter(number for of in given.values() for number, answer in of.items() if answer != SKIP)
        seen = {self.study.questions[number].original for number in mine} if self._once else set()
        left = []
        for number in sorted(range(len(self.study.questions)), key=lambda n: self._mark(reviewer, n)):
            original = self.study.questions[number].original
            if number in mine or number in self._gone or votes[number] >= self._votes or original in seen:
                continue
            if self._once:
                seen.add(original)
            left.append(number)
        return left

    def _mark(self, reviewer: str, number: int) -> bytes:
        return hashlib.sha256(f"{self._seed}/{reviewer}/{number}".encode()).digest()

    def ask_skipped(self, reviewer: str) -> None:
        for number, answer in self.given().get(reviewer, {}).items():
            if answer == SKIP:
                self.save(reviewer, PostedChoice(number=number, answer="undo"))

    def shown(self, number: int) -> list[str] | int:
        """Return what a question offers: the names of classes, or how many pictures."""
        question = self.study.questions[number]
        if self.study.asked == "classes":
            return [self.study.originals[n].class_name for n in question.candidates]
        return len(question.candidates)

    def picture(self, reviewer: str, number: int, place: int) -> ScreenedPicture | None:
        """Return a picture of a question, once the access log says so: at 0 the changed one, then the candidates.

        None if there is none. StorageError, and no picture, if it cannot be read or logged.
        """
        question = self.study.questions[number]
        places = 0 if self.study.asked == "classes" else len(question.candidates)
        if place > places:
            return None
        original = question.original if place == 0 else question.candidates[place - 1]
        set_name = question.set_name if place == 0 else None
        sha256 = question.changed_sha256 if place == 0 else self.study.originals[original].sha256
        with self._reading:
            picture = self._jpeg(set_name, original, sha256)
        if picture.state != "shown":
            self._gone.add(number)
        else:
            key = self.study.originals[original].key
            self.answers.log_shown(reviewer, sha256, key if set_name is None else f"{set_name}/{key}")
        return picture

    def _made_jpeg(self, set_name: str | None, original: int, sha256: str) -> ScreenedPicture:
        drawn = self.study.originals[original]
        own = read_picture(self.study.corpus, drawn.place, self.study.hash_list)
        picture = own if set_name is None else self.study.sets[set_name].changed(drawn.place, own)
        if picture is None or picture.pixels is None or picture.is_withheld:
            return ScreenedPicture("changed")
        if (own.sha256, picture.sha256) != (drawn.sha256, sha256):  # written again since the draw
            return ScreenedPicture("changed")
        return ScreenedPicture("shown", _jpeg(picture.pixels))

    def save(self, reviewer: str, posted: PostedChoice) -> None:
        """Save the answer. ChoiceError if it is to no question, or names no candidate."""
        if posted.number >= len(self.study.questions):
            raise ChoiceError("there is no such question; load the page again")
        question = self.study.questions[posted.number]
        is_place = posted.place is not None and posted.place <= len(question.candidates)
        if (posted.answer == CANDIDATE) != is_place or (posted.place is not None and not is_place):
            raise ChoiceError("an answer names one of the candidates, or none; load the page again")
        chosen = None if posted.place is None else question.candidates[posted.place - 1]
        is_judged = posted.answer not in (SKIP, UNDO) and not question.is_decoy
        self.answers.add(
            {
                "set": question.set_name,
                "key": self.study.originals[question.original].key,
                "is_decoy": question.is_decoy,
                "annotator": reviewer,
                "recognised": int(chosen == question.original) if is_judged else None,
                "answer": posted.answer,
                "chosen": None if chosen is None else self.study.originals[chosen].key,
                "seconds": None if posted.seconds is None else min(posted.seconds, MAX_SECONDS),
            }
        )
        with self._lock:
            self.num_saved += 1
            mine = self._given.setdefault(reviewer, {})
            if posted.answer == UNDO:
                mine.pop(posted.number, None)
            else:
                mine[posted.number] = posted.answer

    def tallies(self) -> tuple[ReviewerTally, ...]:
        """Return who answered how many questions, by name."""
        tallies = []
        for name, given in sorted(self.given().items()):
            counts: Counter[str] = Counter(given.values())
            num_skipped = counts.pop(SKIP, 0)
            if given:
                tallies.append(ReviewerTally(name, counts.total(), 0, num_skipped, len(self.left(name))))
        return tuple(tallies)

    def progress(self, reviewer: str) -> dict[str, Any]:
        """Return JSON: the next questions of the person, and how many are left."""
        left = self.left(reviewer)
        mine = self.given().get(reviewer, {})
        return {
            "questions": [{"number": number, "candidates": self.shown(number)} for number in left[:AHEAD]],
            "num_left": len(left),
            "num_skipped": sum(answer == SKIP for answer in mine.values()),
        }


@dataclass(frozen=True)
class AskResult:
    num_saved: int
    """Answers that this server saved, those that were taken back or changed later included."""

    people: tuple[ReviewerTally, ...]
    """What everybody did, at other servers too."""


def result_of(choices: Choices) -> AskResult:
    """Return the result so far, with the answers of other servers."""
    choices.refresh()
    return AskResult(choices.num_saved, choices.tallies())


def _jpeg(pixels: Pixels) -> bytes:
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(reduced(pixels)), quality=QUALITY, colorspace="RGB"))
