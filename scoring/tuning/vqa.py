"""Questions with right answers about pictures that have nothing to do with privacy: VQAv2, POPE and ScienceQA.

Files are read in the layouts that their authors publish; the data sets themselves were not at hand. Samson et al.,
"Privacy-Aware Visual Language Models", print scores of all three before and after tuning, without their definitions:
how an answer is scored here is said at each reader.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ingest.errors import LabelsError
from ingest.images.pixels import Pixels
from ingest.sample import printable
from ingest.storage.place import place
from scoring.labels.source_files import content_of, inside, json_of, lines_of

BenchmarkName = Literal["vqav2", "pope", "scienceqa"]

SHORT = "Answer with one word or a short phrase."
LETTER = "Answer with the letter of the right choice alone."
LETTERS = "ABCDEFGH"
MAX_QUESTION_CHARS = 8000

_NUMBERS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten".split())  # noqa: SIM905
}


@dataclass(frozen=True)
class VqaQuestion:
    """One question about one picture."""

    picture: str
    """Path of the picture below the folder of pictures."""

    text: str
    answers: tuple[str, ...] = ()
    """Right answers, one per person who gave it; none if nothing is judged."""

    kind: BenchmarkName | None = None

    def score(self, said: str) -> float:
        """Return how right an answer is, 0–1."""
        if self.kind == "vqav2":
            said_plainly = plain(said)
            same = sum(plain(answer) == said_plainly for answer in self.answers)
            # Of each ten but one, whether three say so: the mean over the one that is left out.
            num = len(self.answers)
            return (same * min(1.0, (same - 1) / 3) + (num - same) * min(1.0, same / 3)) / num
        first = re.match(r"\W*(\w+)", said)
        return float(first is not None and first[1].lower() == self.answers[0])


Asked = tuple[Pixels | None, Sequence[VqaQuestion]]
"""A picture, None if it cannot be decoded, and what is asked about it."""

NEUTRAL = (
    VqaQuestion("", "Describe this picture."),
    VqaQuestion("", "What is the main thing in this picture?"),
    VqaQuestion("", "Which colours are in this picture?"),
)
"""Questions for any picture, without right answers."""


def vqa_questions(name: BenchmarkName, files: Sequence[str]) -> list[VqaQuestion]:
    """Read the files of a benchmark. LabelsError with the file if one is wrong, or there are too few or too many."""
    reader, num_files, what = _READERS[name]
    if len(files) != num_files:
        raise LabelsError(
            f"--questions of {name} takes {what}; there {'is' if len(files) == 1 else 'are'} {len(files)}"
        )
    try:
        questions = reader(*files)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise LabelsError(f"{', '.join(files)}: is not laid out as {name} is; give {what}") from None
    if not questions:
        raise LabelsError(f"{', '.join(files)}: has no question about a picture")
    return questions


def plain(answer: str) -> str:
    """Return an answer as it is compared: lower case, no punctuation or articles, numbers as digits.

    The official code also has a table of contractions, which is not here.
    """
    words = re.sub(r"[^\w\s]", "", answer.lower().strip().partition("\n")[0]).split()
    return " ".join(_NUMBERS.get(word, word) for word in words if word not in ("a", "an", "the"))


def _vqav2(questions: str, annotations: str) -> list[VqaQuestion]:
    """Read VQAv2: an answer is right as far as three of the ten people gave it."""
    asked, said = _json(questions), _json(annotations)
    answers = {item["question_id"]: item["answers"] for item in said["annotations"]}
    subset = str(asked["data_subtype"])
    return [
        VqaQuestion(
            inside(f"COCO_{subset}_{int(item['image_id']):012d}.jpg", questions),
            f"{_text(item['question'])}\n{SHORT}",
            tuple(_text(each["answer"]) for each in answers[item["question_id"]]),
            "vqav2",
        )
        for item in asked["questions"]
    ]


def _pope(file: str) -> list[VqaQuestion]:
    """Read one of POPE's three files: an answer is right if its first word is the label; the score is the accuracy."""
    questions = []
    for where, line in lines_of(place(file), file):
        item = json_of(line.encode(), where)
        label = _text(item["label"]).lower()
        if label not in ("yes", "no"):
            raise LabelsError(f"{where}: the label is neither yes nor no")
        questions.append(
            VqaQuestion(inside(_text(item["image"]), where), f"{_text(item['text'])}\n{SHORT}", (label,), "pope")
        )
    return questions


def _scienceqa(file: str) -> list[VqaQuestion]:
    """Read the test split's questions with a picture; an answer is right if it begins with the letter."""
    questions = []
    for number, item in _json(file).items():
        if item["split"] != "test" or not item["image"]:
            continue
        choices = [f"{letter}. {_text(choice)}" for letter, choice in zip(LETTERS, item["choices"], strict=False)]
        text = "\n".join(filter(None, [_text(item.get("hint") or ""), _text(item["question"]), *choices, LETTER]))
        path = inside(f"test/{number}/{_text(item['image'])}", file)
        questions.append(VqaQuestion(path, text, (LETTERS[item["answer"]].lower(),), "scienceqa"))
    return questions


_READERS: Mapping[str, tuple[Callable[..., list[VqaQuestion]], int, str]] = {
    "vqav2": (_vqav2, 2, "its file of questions and its file of annotations, in this order"),
    "pope": (_pope, 1, "one file of JSON lines"),
    "scienceqa": (_scienceqa, 1, "problems.json"),
}


def _json(file: str) -> Any:
    return json_of(content_of(place(file), file), file)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_QUESTION_CHARS:
        raise ValueError("no text")
    return printable(value)
