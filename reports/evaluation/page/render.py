"""Fills the page. Names of corpora and labels are hostile: Jinja escapes them, and the page may run no script."""

from base64 import b64encode
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from reports.evaluation.findings import findings
from reports.evaluation.page.drawings import MARGIN, SIDE, bars, reliability, shade
from reports.evaluation.results import Evaluation
from reports.evaluation.tables import notes, number, tables
from reports.page.render import write_text
from reports.summary import shortened


def render(evaluation: Evaluation, pictures: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """One HTML page that needs nothing else and may load nothing. pictures: sha256 -> a JPEG of an error."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": "{:,}".format, "number": number, "shortened": shortened}
    folder = resources.files("reports")
    template = folder.joinpath("evaluation", "page", "page.html.j2").read_text(encoding="utf-8")
    calibrations = [("private", evaluation.private.calibration if evaluation.private else None)]
    calibrations += [(key, one.calibration) for key, one in evaluation.attributes.items()]
    return environment.from_string(template).render(
        evaluation=evaluation,
        tables=list(tables(evaluation)),
        findings=findings(evaluation),
        pictures={sha256: b64encode(jpeg).decode() for sha256, jpeg in pictures.items()},
        notes=notes(evaluation),
        scores=[score for score in (evaluation.score, evaluation.formula_score) if score],
        calibrations=[(title, one) for title, one in calibrations if one],
        style=Markup(folder.joinpath("page", "page.css").read_text(encoding="utf-8")),
        reliability=reliability,
        shade=shade,
        bars=bars,
        side=SIDE,
        margin=MARGIN,
    )


def write_page(evaluation: Evaluation, path: Path, pictures: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """The page as a file of this machine, whole or not at all. StorageError. pictures: as of `render`."""
    write_text(render(evaluation, pictures), path)
