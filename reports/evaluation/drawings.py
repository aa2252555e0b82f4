"""Small SVG drawings, since the page has few figures: Plotly alone would make it 4 MB."""

from dataclasses import dataclass

from reports.statistics.calibration import Calibration

SIDE = 200
"""Side of a drawing without its margin, in SVG units."""

MARGIN = 34


@dataclass(frozen=True)
class Dot:
    """One bin of a reliability diagram."""

    x: float
    """Mean probability, in SVG units from the left."""

    y: float
    """Share of pictures for which it is true, in SVG units from the top."""

    radius: float
    """Grows with the number of pictures."""

    text: str
    """What a reader sees who points at it."""


def reliability(calibration: Calibration) -> tuple[Dot, ...]:
    """Return a dot for each bin that holds pictures; on the diagonal, probabilities mean what they say."""
    most = max((bin_.num_pictures for bin_ in calibration.bins), default=1)
    return tuple(
        Dot(
            x=MARGIN + SIDE * bin_.mean_probability,
            y=MARGIN / 2 + SIDE * (1 - bin_.share),
            radius=2.5 + 6 * (bin_.num_pictures / most) ** 0.5,
            text=f"{bin_.num_pictures:,} pictures given {bin_.mean_probability:.2f} on average: "
            f"{bin_.share:.1%} are so",
        )
        for bin_ in calibration.bins
        if bin_.mean_probability is not None and bin_.share is not None
    )


def shade(count: int, of: int) -> float:
    """Opacity of a cell that holds `count` of a row's `of` pictures, 0–0.75."""
    return round(0.75 * count / of, 3) if of else 0.0


def bars(counts: tuple[int, ...], height: float = 60.0) -> tuple[float, ...]:
    """Heights of a histogram, in SVG units; the highest bar has the whole height."""
    most = max(counts, default=0)
    return tuple(round(height * count / most, 2) if most else 0.0 for count in counts)
