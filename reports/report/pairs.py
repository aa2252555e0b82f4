"""Attributes that appear together, as the cells of a table: of the images that show one, how many show another."""

from dataclasses import dataclass

from reports.report.results import Report
from reports.run.figures import Pair
from scoring.taxonomy import ATTRIBUTES, Attribute

FEW = 10
"""A share of fewer images is grey: it says little."""


@dataclass(frozen=True)
class Cell:
    """One pair."""

    text: str
    """The share in whole per cent; empty where there is none."""

    title: str
    """Numbers and words, for a reader who points at it."""

    shade: float
    """0–1: how strong the colour is."""

    kind: str
    """`share`, `few` (too few images for a colour), `same` or `unknown`."""


@dataclass(frozen=True)
class MatrixRow:
    """The images that show one attribute."""

    attribute: Attribute
    num_images: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    columns: tuple[Attribute, ...]
    lines: tuple[MatrixRow, ...]
    has_bounds: bool
    """Whether a share in it is a lower bound."""


def matrix(report: Report) -> Matrix:
    """Lines: attributes that were found. Columns: those found or assessed, where any line has a share of them."""
    pairs = {(pair.attribute, pair.other): pair for pair in report.cooccurrence}
    counts = {pair.attribute: pair.num_images for pair in report.cooccurrence}
    rows = [attribute for attribute in ATTRIBUTES if attribute.key in counts]
    columns = [attribute for attribute in ATTRIBUTES if attribute.key in counts or attribute.key in report.assessed]
    lines = tuple(
        MatrixRow(
            row, counts[row.key], tuple(_cell(pairs.get((row.key, column.key)), row, column) for column in columns)
        )
        for row in rows
    )
    bounds = any(pair.is_lower_bound and pair.num_both for pair in report.cooccurrence if pair.attribute != pair.other)
    return Matrix(tuple(columns), lines, bounds)


def _cell(pair: Pair | None, row: Attribute, column: Attribute) -> Cell:
    if row.key == column.key:
        return Cell("", "", 0.0, "same")
    if pair is None or pair.share is None:
        return Cell("", f"{column.title}: not judged in images with {row.title}", 0.0, "unknown")
    bound = "at least " if pair.is_lower_bound else ""
    images = f"{pair.num_images:,} image{'' if pair.num_images == 1 else 's'} with {row.title}"
    title = f"Of {images}, {bound}{pair.num_both:,} ({100 * pair.share:.1f} %) show {column.title}"
    if pair.is_lower_bound:
        title += f"; it was judged in {pair.num_assessed:,} of them"
    if pair.is_lower_bound and not pair.num_both:
        return Cell("", title, 0.0, "unknown")
    text = f"{'≥' if pair.is_lower_bound else ''}{100 * pair.share:.0f}"
    is_few = pair.num_images < FEW
    return Cell(text, title, 0.0 if is_few else round(pair.share, 3), "few" if is_few else "share")
