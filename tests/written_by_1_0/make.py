"""Writes the files of version 1.0 anew: `python -m tests.written_by_1_0.make`. To be run with version 1.0 alone.

A run of two shards, a release of it, labels, an audit, and what `sql` said of them. `covered` needs options that are
gone: it is a release of covered pictures with a guarantee, of which `takedown` took 0.tar/1.
"""

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import jpeg, privsieve, tar

FOLDER = Path(__file__).parent
CORPUS = "memory://privsieve-1.0/corpus"
"""A run knows its source by its URL."""

QUESTION = 'FROM images ORDER BY shard, "index"'
POLICY = """\
name: guard
rules:
  - {name: identifying, when: level = 1, then: drop, reason: shows a unique identifier}
  - {name: quasi-identifying, when: c2 >= 1, then: flag, reason: shows a quasi-identifier}
default: keep
quarantined: drop
"""


@contextlib.contextmanager
def corpus() -> Iterator[None]:
    """The source of the run, in memory: always the same files of the same time."""
    files = MemoryFileSystem()
    folder = CORPUS.partition("://")[2]
    for shard in (FOLDER / "corpus").iterdir():
        files.pipe(f"{folder}/{shard.name}", shard.read_bytes())
        files.store[f"/{folder}/{shard.name}"].created = datetime(2026, 11, 27, tzinfo=UTC)
    try:
        yield
    finally:
        files.rm(folder, recursive=True)


def said(*command: object) -> str:
    """What a command prints that works."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert privsieve(*command) == 0, command
    return out.getvalue()


def make() -> None:
    for name in ("corpus", "run", "release"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    (FOLDER / "corpus").mkdir()
    for number in (0, 1):
        pictures = {f"{n}.jpg": jpeg(n) if n % 4 else b"" for n in range(4 * number, 4 * number + 4)}
        members = pictures | {f"{4 * number + 1}.txt": b"a gradient"}
        tar(FOLDER / "corpus" / f"{number}.tar", dict(sorted(members.items())))
    (FOLDER / "policy.yaml").write_text(POLICY)
    run, release, labels = FOLDER / "run", FOLDER / "release", FOLDER / "labels.parquet"
    with corpus():
        scan()
        said("filter", run, "--policy", FOLDER / "policy.yaml", "--out", release, "--quiet")
        rows = json.loads(said("sql", run, QUESTION, "--format", "json"))
        said("audit", "sample", run, "--n", 6, "--out", FOLDER / "drawn.csv")
        scored = [row for row in rows if row["status"] == "scored"]
        columns = {
            "sha256": [row["sha256"] for row in scored],
            "annotator": ["ana"] * len(scored),
            "private": [int(row["private"]) for row in scored],
        }
        write_labels(to_labels(columns, len(scored)), str(labels), LabelsOrigin("ana", num_pictures=len(scored)))
        said("audit", "apply", run, labels)
        rates = json.loads(said("sql", run, "FROM corrected_rates", "--format", "json"))
    for file in FOLDER.glob("drawn*"):
        file.unlink()
    lines = [json.dumps({name: value for name, value in row.items() if value is not None}) for row in [*rows, *rates]]
    (FOLDER / "said.jsonl").write_text("\n".join(lines) + "\n")


def scan(run: Path = FOLDER / "run") -> str:
    return said("scan", CORPUS, "--run", run, "--engine", "canned", "--executor", "inline", "--processes", 1)


if __name__ == "__main__":
    make()
