"""Fills the page. Names of the corpus are hostile: Jinja escapes them in HTML, `charts` in Plotly's labels."""

import json
import os
from importlib import resources
from pathlib import Path

from ingest.errors import StorageError
from reports.page.charts import charts
from reports.summary import Report, shortened


def render(report: Report) -> str:
    """One HTML page that needs nothing else: style, script and charts are inside, and it may load nothing."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": _percent, "count": "{:,}".format, "shortened": shortened}
    template = environment.from_string(_text("page.html.j2"))
    # A "<" inside a script element could end it; in JSON it can be written otherwise.
    figures = json.dumps(charts(report), allow_nan=False).replace("<", "\\u003c")
    return template.render(
        report=report,
        figures=Markup(figures),
        style=Markup(_text("page.css")),
        script=Markup(_text("page.js")),
        plotly=Markup(get_plotlyjs()),
    )


def _text(name: str) -> str:
    return resources.files("reports").joinpath("page", name).read_text(encoding="utf-8")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def write_page(report: Report, path: Path) -> None:
    """Write the page under another name and rename it, so that it is never there in part. StorageError."""
    write_text(render(report), path)


def write_text(page: str, path: Path) -> None:
    """As `write_page`, of any page. StorageError if the path is none of this machine or cannot be written."""
    if not path.name:
        raise StorageError(f"--html {path} names no file")
    if ":/" in str(path):
        raise StorageError(f"--html {path}: the page is written to a file of this machine; give a path, not a URL")
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.write_text(page, encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None
