"""HTML pages that need no other file: fills a template of `reports`, and writes the page whole or not at all.

Names of corpora and labels are hostile: Jinja escapes them, and pages may load nothing and run no script but their own.
"""

import os
from base64 import b64encode
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.errors import StorageError
from reports.words import number, percent, shortened

if TYPE_CHECKING:
    import jinja2


def text_of(folder: str, name: str) -> str:
    """Return the content of a file in a folder of `reports`."""
    return resources.files("reports").joinpath(*folder.split("/"), name).read_text(encoding="utf-8")


def fill(template: str, **values: Any) -> str:
    """Fill a template, such as `diff/page.html.j2`, and return the text. It extends the frame that all pages share."""
    from markupsafe import Markup

    folder, _, name = template.rpartition("/")
    return _environment(folder or ".").get_template(name).render(style=Markup(text_of(".", "page.css")), **values)


@cache
def _environment(folder: str) -> "jinja2.Environment":
    import jinja2

    from ingest.sample import printable

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: text_of("." if name == "frame.html.j2" else folder, name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "jpeg": lambda content: b64encode(content).decode(),
        "number": number,
        "percent": percent,
        "printable": printable,
        "shortened": shortened,
    }
    return environment


def check_path(path: Path, option: str = "--html") -> None:
    """Raise StorageError if the path cannot be that of a page on this machine. option: that gave it."""
    if not path.name:
        raise StorageError(f"{option} {path} names no file")
    if ":/" in str(path):
        raise StorageError(f"{option} {path}: the page is written to a file of this machine; give a path, not a URL")
    try:
        is_no_file = path.exists() and not path.is_file()
    except OSError as error:
        raise StorageError(f"{option} {path} cannot be written: {error.strerror}") from None
    if is_no_file:
        raise StorageError(f"{option} {path} is a folder, pipe, socket or device; give the path of a file")


def write_page(page: str, path: Path) -> None:
    """Write the text of a page under another name and rename it, so that the page is never incomplete.

    A link stays, and the file that it names is written. StorageError if the path is not on this machine or cannot be
    written.
    """
    check_path(path)
    file = Path(os.path.realpath(path))
    aside = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        aside.write_text(page, encoding="utf-8")
        os.replace(aside, file)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None
