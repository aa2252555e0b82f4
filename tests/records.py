"""The record and the results of a run that no test scanned, and the file of another taxonomy that no test fitted."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from ingest.storage.place import Place, place
from scoring.runs import footers
from scoring.runs.ledger import result_name
from scoring.runs.record import RunRecord
from scoring.runs.results import listing
from scoring.taxonomy import fitted_version


def run_record(engine: dict[str, Any]) -> RunRecord:
    return RunRecord(
        privsieve="0.1.0",
        source="/data/corpus",
        format="webdataset",
        category=None,
        sample=None,
        seed=None,
        limit=None,
        max_pixels=1,
        max_frames=1,
        taxonomy="cprt-1",
        engine=engine,
    )


def write_result(run: Path, shard: str, number: int, is_last: bool, rows: pa.Table) -> Path:
    """The result of a slice as a scan writes it, but for what of the footer comes from the source and the settings."""
    name = result_name(shard, number, is_last)
    reasons = {one["values"]: one["counts"] for one in rows["reason"].drop_null().value_counts().to_pylist()}
    footers.write_result(place(str(run / "scores" / name)), rows, {"shard": shard}, reasons)
    return run / "scores" / name


def score_files(run: Place) -> list[Place]:
    return [run.at(path) for path in listing(run).score_files]


SHOP_KEYS = ("face", "loyalty_card", "basket", "price_tag", "shelf")


def fitted_taxonomy(file: Path, version: str = "shop-1") -> Path:
    """A taxonomy with two harmless attributes and one on each other level, with bands."""
    content = {
        "version": version,
        "levels": {n: {"name": f"level {n}", "score": [1 - n / 4, 1.25 - n / 4]} for n in range(1, 5)},
        "attributes": {
            key: {"level": level, "title": key, "shows": f"a {key}", "question": f"Present: a {key}."}
            for key, level in zip(SHOP_KEYS, (1, 2, 3, 4, 4), strict=True)
        },
    }
    content["version"] = fitted_version(content, version)
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file
