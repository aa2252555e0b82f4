"""Makes a folder of fixtures with the code that is checked out: `python -m tests.older_runs.make FOLDER`.

A small corpus in three layouts and what the verbs make of it today. Run once before a change of any file format, and
keep the folder: `test_older_runs.py` asks newer code to continue, report, filter and compact what lies there.
"""

import io
import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.storage.place import place
from tests.jobs.made import jpeg, privsieve, shard
from tests.records import score_files

POLICY = """\
name: guard
rules:
  - name: identifying
    when: level = 1
    then: drop
    reason: shows a unique identifier
  - name: quasi-identifying
    when: c2 >= 1
    then: flag
    reason: shows a quasi-identifier
default: keep
quarantined: drop
"""


CORPUS = Path("/tmp/privsieve-corpus-0.1.0")
"""Where the corpus lies while it is scanned, always: a run knows its source by its path."""


def make(folder: Path) -> None:
    corpus = CORPUS
    folder.mkdir(parents=True)
    (corpus / "tars").mkdir(parents=True)
    shard(corpus / "tars" / "00000.tar", 0, 9)
    shard(corpus / "tars" / "00001.tar", 9, 6)
    _tree(corpus / "tree")
    _parquet(corpus / "parquet")
    (folder / "policy.yaml").write_text(POLICY)
    for layout in ("tars", "tree", "parquet"):
        run = folder / "runs" / layout
        assert privsieve("scan", corpus / layout, "--run", run, "--engine", "canned", "--quiet") == 0
        _save_rows(run, folder / "rows" / f"{layout}.json")
        release = folder / "releases" / layout
        assert privsieve("filter", run, "--policy", folder / "policy.yaml", "--out", release, "--quiet") == 0
    interrupted = folder / "runs" / "tars-interrupted"
    shutil.copytree(folder / "runs" / "tars", interrupted)
    next(interrupted.glob("scores/00001.tar-*")).unlink()
    compacted = folder / "runs" / "tars-compacted"
    shutil.copytree(folder / "runs" / "tars", compacted)
    assert privsieve("compact", compacted) == 0
    shutil.move(corpus, folder / "corpus")


def _tree(root: Path) -> None:
    for folder, shades in (("office", range(3)), ("street", range(3, 8))):
        (root / folder).mkdir(parents=True)
        for shade in shades:
            (root / folder / f"{shade}.jpg").write_bytes(jpeg(shade))
            (root / folder / f"{shade}.txt").write_text(f"a gradient, number {shade}\n")


def _parquet(root: Path) -> None:
    root.mkdir()
    rows = {"id": [f"row{n}" for n in range(8)], "image": [jpeg(n) if n else b"" for n in range(8)], "width": [64] * 8}
    pq.write_table(pa.table(rows), root / "00000.parquet", row_group_size=3)


def _save_rows(run: Path, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    tables = [pq.read_table(io.BytesIO(scores.read())) for scores in score_files(place(str(run)))]
    rows = pa.concat_tables(tables).sort_by([("shard", "ascending"), ("index", "ascending")]).to_pylist()
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
