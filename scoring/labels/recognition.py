"""The folder of a study of people: which changed pictures they were asked about, and what they recognised.

`questions.parquet` is the draw; parts like those of `reviews.py` are the answers. Neither is shown to the people.
"""

import json
import re

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from ingest.errors import LabelsError
from ingest.storage.file_format import FORMAT, refuse_other_format
from ingest.storage.parquet_tables import read_table, refuse_damage, write_table
from ingest.storage.place import PART, Place
from scoring.labels.reviews import SHOWN, SKIP, UNDO, ReviewAnswers, standing
from scoring.runs import FIGURES, PURGED

CANDIDATE = "candidate"
NONE = "none"
STUDY_ANSWERS = (CANDIDATE, NONE, SKIP, UNDO)
"""candidate: one of the candidates. none: none of them, or not the same. skip, undo: as in a review."""

QUESTION = ("set", "key", "is_decoy")
"""Columns that say what was asked: the changed picture, by set and key of its original, and whether that original is
missing from the candidates."""

ASKED = (["candidates"], ["classes"], ["pairs"])
"""Ways of asking; a study has one."""

QUESTIONS = "questions.parquet"
QUESTIONS_SCHEMA = pa.schema(
    [
        pa.field(name, pa.bool_() if name == "is_decoy" else pa.string(), False)
        for name in (*QUESTION, "asked", "candidates", "sha256", "changed_sha256")
    ]
)
"""The questions, by number. asked: candidates, classes or pairs. candidates: JSON list of the keys of the originals
among which people choose, in the order in which they are shown. sha256: of the file of the original. changed_sha256: of
the file of the changed picture, or again of the original if that picture is made in memory."""

STUDY_SCHEMA = pa.schema(
    [
        *(QUESTIONS_SCHEMA.field(name) for name in QUESTION),
        pa.field("annotator", pa.string(), False),
        pa.field("recognised", pa.int8()),
        pa.field("answer", pa.string(), False),
        pa.field("chosen", pa.string()),
        pa.field("seconds", pa.float32()),
        pa.field("answered_at", pa.timestamp("us", "UTC"), False),
    ]
)
"""An answer. recognised: 1 if the right candidate was chosen, else 0; null for decoys, and for what was skipped.
chosen: key of the chosen original, null for none of them."""

FOOTER_KEY = b"privsieve.questions"

_FILE = re.compile(
    rf"(?:({re.escape(QUESTIONS)})|(answers)-[0-9a-f]{{12}}-[0-9]{{5}}\.parquet)(?:\.[0-9a-f]{{8}}{re.escape(PART)})?"
)
"""Name of a file of a study, or of one that a killed process left half-written (`Place.create`)."""


def kind_of_file(name: str) -> str | None:
    """Return what a file of a study is: the questions, answers, or the access log; None if it is of something else.

    name: its path below the folder.
    """
    if name.startswith(f"{SHOWN}/"):
        return SHOWN
    match = _FILE.fullmatch(name)
    return None if match is None else match[1] or match[2]


def refuse_purged(folder: Place) -> None:
    """Raise LabelsError if the study was purged."""
    if folder.at(PURGED).exists():
        raise LabelsError(f"{folder.path} was purged: only its figures are left, in {FIGURES}/; begin another study")


def study_answers(folder: Place) -> ReviewAnswers:
    """Return the answers in the folder, to read and to add to. Nothing is read yet."""
    return ReviewAnswers(folder, STUDY_SCHEMA, STUDY_ANSWERS)


def standing_answers(answers: ReviewAnswers) -> pa.Table:
    """Return the last answer of each person to each question, without those that were taken back.

    `recognised` follows from the other columns, whatever a part says: a vote is 0 or 1, and a decoy has none.
    """
    table = standing(answers.table(), QUESTION)
    is_vote = pc.and_(pc.is_in(table["answer"], pa.array([CANDIDATE, NONE])), pc.invert(table["is_decoy"]))
    is_right = pc.and_(pc.equal(table["answer"], CANDIDATE), pc.equal(table["chosen"], table["key"]).fill_null(False))
    recognised = pc.if_else(is_vote, is_right.cast(pa.int8()), pa.scalar(None, pa.int8()))
    return table.set_column(table.schema.get_field_index("recognised"), STUDY_SCHEMA.field("recognised"), recognised)


def keep_questions(folder: Place, questions: pa.Table) -> None:
    """Write the questions, unless the folder has the same ones. LabelsError if it has others, or was purged."""
    refuse_purged(folder)
    if not folder.at(QUESTIONS).exists():
        write_table(folder.at(QUESTIONS), questions, {FOOTER_KEY: json.dumps({"format": FORMAT})})
    elif not read_questions(folder).equals(questions):
        raise LabelsError(
            f"{folder.path}: holds answers to other questions; give the same pictures and options, or another --out"
        )


def read_questions(folder: Place) -> pa.Table:
    """Read the questions, at least one. LabelsError if the folder is no study or purged, or the file is damaged."""
    refuse_purged(folder)
    file = folder.at(QUESTIONS)
    if not file.exists():
        raise LabelsError(f"{folder.path}: is no folder of similarity ask --out")
    with refuse_damage(f"{file.path}:", "is damaged; restore it, or begin with another --out", LabelsError):
        table, footer = read_table(file, FOOTER_KEY)
        refuse_other_format(from_json(footer), file.path, "begin with another --out", LabelsError)
        questions = table.select(QUESTIONS_SCHEMA.names).cast(QUESTIONS_SCHEMA)
        if questions["asked"].unique().to_pylist() not in ASKED:
            raise ValueError("not one way of asking")
        return questions
