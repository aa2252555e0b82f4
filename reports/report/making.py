"""How a report was made: the facts of run.json that a reader needs to judge it or to make it again, in words."""

from collections.abc import Mapping
from typing import Any

from ingest import __version__
from ingest.sample import printable
from reports.run.figures import Fact
from scoring.runs.record import RunRecord

_SHOWN_OF_HASH = 16
_LATER = ("name", "model", "protocol", "assessed", "only_affirmed", "weights", "versions", "max_side_px")
"""Keys of the engine that have a line of their own."""


def facts_of(record: RunRecord, scope: str) -> tuple[Fact, ...]:
    """Return one line per setting, in the order in which a reader asks for them. Nothing that is unset is named.

    scope: which images of the source the run is of.
    """
    engine = record.engine
    lines = [
        ("Report made with", f"privsieve {__version__}"),
        ("Scanned with", f"privsieve {record.privsieve}{f', code {_short(record.code)}' if record.code else ''}"),
        ("Source", f"{record.source} ({record.format})"),
        ("Categories from", _categories(record)),
        ("Images", scope),
        ("Engine", str(engine.get("name") or "unknown")),
        ("Model", str(engine.get("model") or "")),
        ("Questions and settings", str(engine.get("protocol") or "")),
        ("Weights (SHA-256)", _listed({name: _short(str(digest)) for name, digest in _map(engine, "weights").items()})),
        ("Accuracy of the adapter", _adapter(_map(engine, "weights"))),
        ("Packages", _listed(_map(engine, "versions"))),
        ("Pictures", _pictures(record, engine.get("max_side_px"))),
        *((name.replace("_", " ").capitalize(), _value(value)) for name, value in engine.items() if name not in _LATER),
        ("Taxonomy", record.taxonomy),
        ("Hash of all settings", _short(record.settings_hash())),
    ]
    return tuple(Fact(name, printable(value)) for name, value in lines if value)


def _categories(record: RunRecord) -> str:
    if record.labels:
        return f"a list of labels, SHA-256 {_short(record.labels)}"
    return record.category or ("folders" if record.format == "tree" else "the source's own field")


def _pictures(record: RunRecord, max_side_px: object) -> str:
    lines = [f"at most {record.max_pixels:,} pixels and {record.max_frames:,} frames of a file"]
    if max_side_px:
        lines.append(f"longer side at most {max_side_px} pixels")
    return "; ".join(lines)


def _adapter(weights: Mapping[str, str]) -> str:
    """Say that a run records no figure of the adapter's card; nothing without an adapter."""
    if not any(name.startswith("adapter ") for name in weights):
        return ""
    return "not recorded in a run; what tune measured is in the adapter's privsieve.json, of other pictures"


def _map(engine: Mapping[str, Any], name: str) -> dict[str, str]:
    mapping = engine.get(name)
    return {str(key): str(value) for key, value in mapping.items()} if isinstance(mapping, dict) else {}


def _listed(of: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in of.items())


def _value(value: object) -> str:
    if value is None or value is False or value == [] or value == {}:
        return ""
    if isinstance(value, dict):
        return _listed({str(name): str(item) for name, item in value.items()})
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(digest: str) -> str:
    return f"{digest[:_SHOWN_OF_HASH]}…" if len(digest) > _SHOWN_OF_HASH else digest
