"""One piece of evidence, by its kind and never with its content."""

from dataclasses import dataclass

Area = tuple[float, float, float, float]
"""x_min, y_min, x_max, y_max in fractions (0-1) of the view, y down."""


@dataclass(frozen=True)
class Finding:
    """One piece of evidence."""

    attribute: str
    """A taxonomy key."""

    value: float
    """1 clear, 0.5 ambiguous."""

    kind: str
    """Kind of evidence, in plain words."""

    area: Area | None = None
    confidence: float = 1.0
    """Confidence of the model, 0–1."""


def fractions(x_min: float, y_min: float, x_max: float, y_max: float, width: int, height: int) -> Area:
    """Convert a box in pixels of a view of width x height to an `Area`, cut at the borders."""

    def cut(value: float, size: int) -> float:
        return float(min(max(value / size, 0.0), 1.0))

    return cut(x_min, width), cut(y_min, height), cut(x_max, width), cut(y_max, height)
