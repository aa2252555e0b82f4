"""Releases that tests write, and what is in them."""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from scoring.labels.table import LabelsOrigin, to_labels, write_labels

KEEP_ALL = "name: keep-all\nrules: []\ndefault: keep\nquarantined: keep\n"


NO_FACES = (
    "name: no-faces\ndefault: keep\nrules:\n"
    "  - {name: faces, when: level = 1, then: drop, reason: a face}\n"
    "  - {name: profile, when: level = 3, then: flag, reason: a profile}\n"
)


def files(folder: Path) -> dict[str, bytes]:
    """Path relative to the folder -> content, of all files below it."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def released(out: Path) -> dict[str, str]:
    """Checks that exactly the files that release.json names are there, with these hashes; returns it."""
    found = files(out)
    summary = json.loads(found.pop("release.json"))
    decisions = pq.read_table(io.BytesIO(found.pop("decisions.parquet")))
    found.pop("redactions.parquet", None)
    for name in ("SHA256SUMS", *summary["documents"]):
        found.pop(name)
    assert summary["sha256"] == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert sum(summary["actions"].values()) == summary["num_images"] == decisions.num_rows
    by_rule = decisions.group_by(["rule", "action"]).aggregate([("index", "count")]).to_pylist()
    assert {(rule, action): n for rule, of in summary["rules"].items() for action, n in of.items()} == {
        (row["rule"], row["action"]): row["index_count"] for row in by_rule
    }
    hashes: dict[str, str] = summary["sha256"]
    return hashes


def decided(out: Path) -> dict[str, tuple[str, str]]:
    """Key -> (action, rule) of every sample."""
    return {d["key"]: (d["action"], d["rule"]) for d in pq.read_table(out / "decisions.parquet").to_pylist()}


def labels_of(folder: Path, keys: Sequence[object], name: str = "labels") -> Path:
    """Each of these pictures is private."""
    path = folder / f"{name}.parquet"
    columns: dict[str, Sequence[object]] = {
        "key": list(keys),
        "annotator": ["me"] * len(keys),
        "private": [1] * len(keys),
    }
    write_labels(to_labels(columns, len(keys)), str(path), LabelsOrigin("hand"))
    return path
