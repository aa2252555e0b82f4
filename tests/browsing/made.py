"""A run of drawn pictures with answers made by hand, and a server of it in this process."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ingest.errors import Fault
from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.browse.browsing import BrowseRequest, serving
from jobs.serving.browse.server import Browsing
from jobs.serving.local_server import LocalServer
from scoring.assessment import Assessment, Box, EngineOptions
from scoring.engines import canned
from scoring.table import LISTED, Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import tar
from tests.records import run_record, write_result
from tests.reviewing.made import Person
from tests.tuning_sets.made import drawn

FOUND = "canned answer that only details may show"


def answer(*boxes: Box, **values: float | None) -> Assessment:
    """Every attribute absent, but for those named; None: not assessed."""
    vector = np.zeros(len(KEYS), np.float32)
    for key, value in values.items():
        vector[KEYS.index(key)] = np.nan if value is None else value
    return Assessment(vector, (FOUND,), boxes)


FACE = Box("biometrics", "face", 0.25, 0.125, 0.5, 0.75, 0.9)
NAME = Box("full_legal_name", "name", 0.5, 0.5, 0.75, 0.625, 0.8)
ON_SECOND_FRAME = Box("full_legal_name", "name", 0.1, 0.1, 0.2, 0.2, 0.8, view=1)
FLAT = Box("full_legal_name", "name", 0.5, 0.5, 0.5, 0.6, 0.8)

ROWS: tuple[tuple[str, str | None, Verdict], ...] = (
    ("<b>both</b>", "beach", answer(FACE, NAME, biometrics=1, full_legal_name=1, age=None)),
    ("face", "beach", answer(FACE, biometrics=1)),
    ("=name()", "office", answer(NAME, ON_SECOND_FRAME, FLAT, full_legal_name=1)),
    ("walker", "beach", answer(age=1)),
    ("half", "office", answer(biometrics=0.5)),
    ("nothing", None, answer()),
    ("cut", "office", Fault("truncated", "the file ends early")),
    ("", None, Fault(LISTED, "it is on the hash list of the scan")),
)
"""The most severe first, as a page lists them."""

SHOWN = [key for key, _, _ in ROWS if key]


def content(number: int) -> bytes:
    """The file of the row with this index."""
    return drawn(number)[:200] if ROWS[number][0] == "cut" else drawn(number)


def made_run(folder: Path) -> Path:
    (folder / "corpus").mkdir(parents=True)
    tar(folder / "corpus" / "0.tar", {f"{number}.png": content(number) for number in range(len(ROWS))})
    facts = [
        Facts.of_listed("0.tar", number)
        if not key
        else Facts(
            shard="0.tar",
            index=number,
            key=key,
            category=category,
            num_bytes=len(content(number)),
            sha256=hashlib.sha256(content(number)).hexdigest(),
            width=None if key == "cut" else 256,
            height=None if key == "cut" else 256,
            format="png",
            num_frames=2 if key == "=name()" else 1,
        )
        for number, (key, category, _) in enumerate(ROWS)
    ]
    return written(folder, facts, [verdict for _, _, verdict in ROWS])


def written(folder: Path, facts: Sequence[Facts], verdicts: Sequence[Verdict]) -> Path:
    """A run of these rows, of one shard of `corpus`."""
    run = folder / "run"
    (run / "scores").mkdir(parents=True)
    engine = asdict(canned.describe(EngineOptions())) | {"assessed": list(KEYS)}
    record = run_record(engine).model_copy(update={"source": str(folder / "corpus"), "max_pixels": 10**6})
    (run / "run.json").write_text(record.model_dump_json())
    write_result(run, "0.tar", 0, True, to_table(facts, verdicts))
    return run


@contextmanager
def served(run: Path, feedback: Feedback = SILENT, **more: Any) -> Iterator[LocalServer[Browsing]]:
    with serving(BrowseRequest(run=str(run), **more), feedback) as one, one.in_background():
        yield one


def keys(person: Person, **wanted: object) -> list[str]:
    answered = person.post("/api/page", {"filter": wanted})
    assert answered.status == 200, answered.content
    rows = answered.json["rows"]
    assert answered.json["num_rows"] == len(rows)
    return [row["key"] for row in rows]


def counts(person: Person, **wanted: object) -> dict[str, Any]:
    found: dict[str, Any] = person.post("/api/counts", {"filter": wanted}).json
    of_lists = {name: {one["value"]: one["num_rows"] for one in found[name]} for name in found.keys() - {"attributes"}}
    return of_lists | {"attributes": found["attributes"]}


def export(person: Person, **wanted: object) -> bytes:
    answered = person.post("/api/export", {"filter": wanted})
    assert answered.status == 200
    return answered.content
