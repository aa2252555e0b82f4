"""The dataset card of a release, `README.md`.

It is made from `release.json` alone, so that a takedown can write it again. It says what was measured, by which engine
and on what, and names what was not; it does not describe what the command does not know, such as a licence. The text is
in `card.md.j2`.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from ingest.errors import number_of
from ingest.formats.released import CARD
from ingest.formats.tree import RELEASED_WITH_IMAGE
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.record import ReleaseRecord
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    import jinja2

HUB_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""`size_categories` of the Hugging Face hub: below this many images, this name."""

TEXTS = {
    "image-only": "texts next to the pictures were left out",
    "listed": "texts next to the pictures are in the release",
    "all": "all files next to the pictures are in the release",
}
"""`members` of a policy -> what the card says of it."""


def card(release: ReleaseRecord) -> bytes:
    engine = release.engine
    text = _template().render(
        release=release,
        engine=engine,
        urls=release.urls,
        name=name_of(release),
        num_covered=release.actions["redact"],
        num_taken_down=sum(takedown.num_pictures for takedown in release.takedowns),
        size=next((name for limit, name in HUB_SIZES if release.num_released < limit), "n>10M"),
        paths=_paths(release),
        judged=[key for key in KEYS if key in engine.assessed and key not in engine.only_affirmed],
        affirmed=[key for key in KEYS if key in engine.only_affirmed],
        num_attributes=len(KEYS),
        missing=[key for key in KEYS if key not in engine.assessed],
        texts=TEXTS[release.members],
        origins=origins(release),
    )
    return text.encode()


def name_of(release: ReleaseRecord) -> str:
    return f"release-{release.run_sha256[:12]}"


@cache
def _template() -> "jinja2.Template":
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "count": "{:,}".format,
        "counts": lambda actions: ", ".join(f"{count:,} {action}" for action, count in actions.items()),
        "json": json.dumps,
        "number_of": number_of,
        "printable": printable,
        "quoted": lambda keys: ", ".join(f"`{key}`" for key in keys),
    }
    return environment.from_string(resources.files("jobs.releases").joinpath("card.md.j2").read_text(encoding="utf-8"))


def _paths(release: ReleaseRecord) -> list[str]:
    """Return the files for the hub's viewer, which else takes other tables for data; of a tree, its extensions."""
    paths = sorted(map(printable, release.sha256))
    if release.file_format != "tree":
        return paths
    return [f"**/*{suffix}" for suffix in picture_suffixes(paths)]


def picture_suffixes(paths: Iterable[str]) -> list[str]:
    """Return the extensions, with the dot, of the pictures in a tree."""
    return sorted({posixpath.splitext(path)[1] for path in paths} - {"", *RELEASED_WITH_IMAGE})


def write_card(out: Place, release: ReleaseRecord) -> dict[str, str]:
    """Write the card, and return the name of its file -> its hash."""
    content = card(release)
    out.at(CARD).write(content)
    return {CARD: hashlib.sha256(content).hexdigest()}


def origins(release: ReleaseRecord) -> str:
    """Return what became of the origins of pictures that were written again; empty if there is nothing to say."""
    if release.origins == "kept":
        return "Texts of cleaned and covered pictures still lead to their originals"
    if not release.num_without_origin:
        return ""
    pictures = number_of(release.num_without_origin, "cleaned or covered picture")
    return f"URLs, hashes and sizes of originals were removed from the texts of {pictures}"
