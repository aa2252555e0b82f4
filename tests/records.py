"""The record and the results of a run that no test scanned, and the file of another taxonomy that no test fitted."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from ingest.images.pixels import ImageLimits
from ingest.storage.place import Place, place
from scoring.runs import footers
from scoring.runs.ledger import result_name
from scoring.runs.record import EngineRecord, RunRecord
from scoring.runs.results import listing
from scoring.taxonomy import fitted_version


def engine_record(**said: Any) -> dict[str, Any]:
    """What run.json says of an engine that has nothing but what is said of it here."""
    nothing = {"name": "x", "protocol": "p", "assessed": [], "only_affirmed": [], "uses_caption": False}
    known = {name: said[name] for name in EngineRecord.__annotations__ if name in said}
    return {**nothing, "weights": {}, "versions": {}, "max_side_px": None, **known}


def run_record(engine: Mapping[str, Any]) -> RunRecord:
    """engine: with a name, a protocol and what it assesses, and whatever else run.json says of it."""
    return RunRecord(
        privsieve="1.0.0",
        code="",
        source="/data/corpus",
        source_format="webdataset",
        category=None,
        sample=None,
        seed=None,
        limit=None,
        max_pixels=1,
        max_frames=1,
        taxonomy="cprt-1",
        engine=EngineRecord(**engine_record(**engine)),  # type: ignore[typeddict-item]
        is_fake=engine.get("name") == "canned",
    )


def scanned_record(name: str = "canned", **settings: Any) -> RunRecord:
    """The record of a scan with the usual limits."""
    limits = {"max_pixels": ImageLimits.max_pixels, "max_frames": ImageLimits.max_frames}
    return run_record({"name": name}).model_copy(update=limits | settings)


def write_result(run: Path, shard: str, number: int, is_last: bool, rows: pa.Table) -> Path:
    """The result of a slice as a scan writes it, but for what of the footer comes from the source. The record of the
    run is there already."""
    name = result_name(shard, number, is_last)
    listed = [hashlib.sha256(b"slice" * n).hexdigest() for n in (number, number + 1)]
    texts = {
        "settings": RunRecord.model_validate_json((run / "run.json").read_text()).settings_hash(),
        "shard": shard,
        "listing_digests": " ".join(listed),
        "fingerprint": "",
    }
    reasons = {one["values"]: one["counts"] for one in rows["reason"].drop_null().value_counts().to_pylist()}
    footers.write_result(place(str(run / "scores" / name)), rows, texts, reasons)
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
