"""Made-up answers: those of the canned engine, for tests and dry runs."""

from collections.abc import Mapping
from typing import Any

FAKE_ENGINES = ("canned",)


def made_up(engine: Mapping[str, Any]) -> str | None:
    """Return the warning for readers of such a run's figures and releases; None for engines that see pictures.

    engine: as run.json describes it.
    """
    name = engine.get("name")
    return f"MADE-UP ANSWERS: the {name} engine looks at no picture" if name in FAKE_ENGINES else None
