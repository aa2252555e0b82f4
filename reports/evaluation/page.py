"""Fills the page. Names of corpora and labels are hostile: Jinja escapes them, and the page may run no script."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from reports.evaluation.drawings import MARGIN, SIDE, bars, reliability, shade
from reports.evaluation.findings import findings
from reports.evaluation.results import Evaluation
from reports.evaluation.words import notes, tables
from reports.page.pages import fill, write
from reports.words import number, shortened


def render(evaluation: Evaluation, pictures: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """One HTML page that needs nothing else and may load nothing. pictures: sha256 -> a JPEG of an error."""
    calibrations = [("private", evaluation.private.calibration if evaluation.private else None)]
    calibrations += [(key, one.calibration) for key, one in evaluation.attributes.items()]
    return fill(
        "evaluation",
        {"number": number, "shortened": shortened},
        evaluation=evaluation,
        tables=list(tables(evaluation)),
        findings=findings(evaluation),
        pictures={sha256: b64encode(jpeg).decode() for sha256, jpeg in pictures.items()},
        notes=notes(evaluation),
        scores=[score for score in (evaluation.score, evaluation.formula_score) if score],
        calibrations=[(title, one) for title, one in calibrations if one],
        reliability=reliability,
        shade=shade,
        bars=bars,
        side=SIDE,
        margin=MARGIN,
    )


def write_page(evaluation: Evaluation, path: Path, pictures: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """The page as a file of this machine, whole or not at all. StorageError. pictures: as of `render`."""
    write(render(evaluation, pictures), path)
