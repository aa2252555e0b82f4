"""How the settings of two runs differ, in words."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from ingest.sample import printable

MAX_DIFFERENCES = 3
"""Number of differences that a message names."""

MAX_CHARACTERS = 1000
"""Maximum length of a value in a message."""


def differences(before: BaseModel, now: BaseModel) -> str:
    """Describe the first settings that differ, with both values shortened; empty if none differs."""
    changes = list(_differing("", before.model_dump(), now.model_dump()))
    more = [f"{len(changes) - MAX_DIFFERENCES} more"] if len(changes) > MAX_DIFFERENCES else []
    return "; ".join(changes[:MAX_DIFFERENCES] + more)


def all_differences(before: BaseModel, now: BaseModel) -> tuple[str, ...]:
    """Describe each setting that differs, with both values shortened; none if the settings are the same."""
    return tuple(_differing("", before.model_dump(), now.model_dump()))


def _differing(name: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        keys = list({**before, **now})
        if "name" in keys and before.get("name") != now.get("name"):
            keys = ["name"]  # the other settings depend on it
        for key in keys:
            yield from _differing(f"{name} {_cut(key)}".lstrip(), before.get(key), now.get(key))
    elif isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)):
        gone, new = ([_cut(str(v)) for v in some if v not in other] for some, other in ((before, now), (now, before)))
        differences = [f"had {', '.join(gone)}"] if gone else []
        differences += [f"has now {', '.join(new)}"] if new else []
        yield f"{name} {' and '.join(differences) or 'has another order'}"
    else:
        yield f"{name} was {_in_short(before)}, now {_in_short(now)}"


def _in_short(value: Any) -> str:
    """Shorten a value for a message: hashes to their first digits."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        return f"{value[:8]}…" if re.fullmatch(r"[0-9a-f]{64}", value) else f'"{_cut(value)}"'
    return _cut(str(value))


def _cut(text: str) -> str:
    """Make a text of run.json printable, and shorten it if it is longer than most paths."""
    return printable(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…")
