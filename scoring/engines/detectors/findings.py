"""What a detector hands to the decision: one piece of evidence, told by its kind and never by its content."""

from dataclasses import dataclass

Area = tuple[float, float, float, float]
"""x_min, y_min, x_max, y_max in fractions (0-1) of the view, y down."""


@dataclass(frozen=True)
class Finding:
    """attribute: a taxonomy key. value: 1 clear, 0.5 ambiguous. kind: the kind of evidence in plain words."""

    attribute: str
    value: float
    kind: str
    area: Area | None = None
    confidence: float = 1.0


def fractions(x_min: float, y_min: float, x_max: float, y_max: float, width: int, height: int) -> Area:
    """A box in pixels of a view of width x height as an `Area`, cut at the borders."""

    def cut(value: float, size: int) -> float:
        return float(min(max(value / size, 0.0), 1.0))

    return cut(x_min, width), cut(y_min, height), cut(x_max, width), cut(y_max, height)
