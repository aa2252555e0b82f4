"""Fills the page of an evaluation. Names of corpora and labels are hostile: Jinja escapes them, and the page may run no
script.

The drawings are small SVGs, since the page has few figures: Plotly alone would make it 4 MB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reports.evaluation.results import Evaluation
from reports.evaluation.words import findings, notes, tables
from reports.pages import fill
from reports.statistics.calibration import Calibration
from reports.words import percent

SIDE = 200
"""Side of a drawing without its margin, in SVG units."""

MARGIN = 34


def render(evaluation: Evaluation, pictures: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """Return the evaluation as one HTML page, which needs no other file and may load none.

    pictures: sha256 -> a JPEG of an error.
    """
    calibrations = [("private", evaluation.private.calibration if evaluation.private else None)]
    calibrations += [(key, metrics.calibration) for key, metrics in evaluation.attributes.items()]
    return fill(
        "evaluation/page.html.j2",
        evaluation=evaluation,
        tables=list(tables(evaluation)),
        findings=findings(evaluation),
        pictures=pictures,
        notes=notes(evaluation),
        scores=[score for score in (evaluation.score, evaluation.formula_score) if score],
        calibrations=[(title, calibration) for title, calibration in calibrations if calibration],
        reliability=reliability,
        shade=shade,
        bars=bars,
        side=SIDE,
        margin=MARGIN,
    )


@dataclass(frozen=True)
class Dot:
    """One bin of a reliability diagram, in SVG units from the left and the top.

    x: the mean probability. y: the share of pictures for which it is true.
    """

    x: float
    y: float
    radius: float
    text: str
    """For a reader who points at the dot."""


def reliability(calibration: Calibration) -> tuple[Dot, ...]:
    """Return a dot for each bin that holds pictures; calibrated probabilities are on the diagonal."""
    most = max((bin_.num_pictures for bin_ in calibration.bins), default=1)
    return tuple(
        Dot(
            x=MARGIN + SIDE * bin_.mean_probability,
            y=MARGIN / 2 + SIDE * (1 - bin_.share),
            radius=2.5 + 6 * (bin_.num_pictures / most) ** 0.5,
            text=f"{bin_.num_pictures:,} pictures given {bin_.mean_probability:.2f} on average: "
            f"{percent(bin_.share)} are so",
        )
        for bin_ in calibration.bins
        if bin_.mean_probability is not None and bin_.share is not None
    )


def shade(count: int, num: int) -> float:
    """Return the opacity of a cell that holds `count` of a row's `of` pictures, 0–0.75."""
    return round(0.75 * count / num, 3) if num else 0.0


def bars(counts: tuple[int, ...]) -> tuple[float, ...]:
    """Return the heights of a histogram's bars, in SVG units; the highest bar has the whole height."""
    most = max(counts, default=0)
    return tuple(round(60 * count / most, 2) if most else 0.0 for count in counts)
