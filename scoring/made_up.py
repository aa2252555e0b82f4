"""Answers that were not found in any picture: those of the canned engine, which is there for tests and dry runs."""

from collections.abc import Mapping
from typing import Any

FAKE_ENGINES = ("canned",)


def made_up(engine: Mapping[str, Any]) -> str | None:
    """What every reader of figures or of a release must know of such a run; None for engines that look at pictures.

    engine: as run.json describes it.
    """
    name = engine.get("name")
    return f"MADE-UP ANSWERS: the {name} engine looks at no picture" if name in FAKE_ENGINES else None
