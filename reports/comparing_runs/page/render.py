"""Fills the page. Names of corpora are hostile: Jinja escapes them, and the page may run no script."""

from importlib import resources
from pathlib import Path

from reports.comparing_runs.results import LEVEL_STATES, PRIVATE_STATES, RunDifference
from reports.comparing_runs.tables import findings, headlines, notes, percent, tables
from reports.page.render import write_text
from reports.summary import shortened

MAX_GROUPS = 2_000
"""On the page, which stays below 1.5 MB; JSON has all."""


MINOR = frozenset(
    ["pictures", "known", "only A", "only B", "doubt", "κ", "p", "in A, open in B", "in B, open in A", "95 % interval"]
)
"""Columns that a phone has no room for."""


def render(found: RunDifference) -> str:
    """One HTML page that needs nothing else and may load nothing."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": "{:,}".format, "percent": percent, "shortened": shortened}
    folder = resources.files("reports")
    template = folder.joinpath("comparing_runs", "page", "page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        found=found,
        headlines=list(headlines(found)),
        findings=list(findings(found)),
        notes=list(notes(found)),
        minor=MINOR,
        by=shortened(found.by),
        tables=list(tables(found, MAX_GROUPS)),
        level_states=LEVEL_STATES,
        private_states=PRIVATE_STATES,
        style=Markup(folder.joinpath("page", "page.css").read_text(encoding="utf-8")),
    )


def write_page(found: RunDifference, path: Path) -> None:
    """The page as a file of this machine, whole or not at all. StorageError."""
    write_text(render(found), path)
