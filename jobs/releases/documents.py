"""Documents that readers of a release expect next to it: `README.md`, a dataset card, `datasheet.md`, `croissant.json`.

All are made from `release.json` alone, so that a takedown can write them again. They say what was measured, by which
engine and on what, and name what was not; none describes what the command does not know, such as a licence. The texts
are in `card.md.j2` and `datasheet.md.j2`. The datasheet answers the questions of "Datasheets for Datasets" (Gebru et
al., 2021) by facts. What only the people in charge know is in square brackets. `croissant_context.json` is the context
that Croissant 1.1 prescribes (docs.mlcommons.org/croissant), and the prefix of PROV.
"""

import glob
import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from ingest.errors import number_of
from ingest.formats.members import IMAGE_EXTENSIONS, extension_of
from ingest.formats.released import CARD, CROISSANT, DATASHEET
from ingest.formats.tree import RELEASED_WITH_IMAGE
from ingest.images.files import formats
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

PICTURE_ENCODINGS = [form.media_type for form in formats.TABLE]
"""What a set of pictures may hold. Readers such as mlcroissant take the first that they know, and open each file by its
content; `image/*` is none that they know."""


def documents(release: ReleaseRecord) -> dict[str, bytes]:
    """Return file name -> content."""
    facts = _facts(release)
    texts = {name: template.render(facts) for name, template in _templates().items()}
    texts[CROISSANT] = f"{json.dumps(_croissant(release, facts), indent=2)}\n"
    return {name: text.encode() for name, text in texts.items()}


@cache
def _templates() -> "dict[str, jinja2.Template]":
    """Return file name -> template, compiled once."""
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
    texts = {CARD: "card.md.j2", DATASHEET: "datasheet.md.j2"}
    return {name: environment.from_string(_text(text)) for name, text in texts.items()}


def _text(name: str) -> str:
    return resources.files("jobs.releases").joinpath(name).read_text(encoding="utf-8")


def _facts(release: ReleaseRecord) -> dict[str, Any]:
    """Return what the templates name."""
    return {
        "release": release,
        "engine": release.engine,
        "urls": release.urls,
        "name": f"release-{release.run_sha256[:12]}",
        "num_covered": release.actions["redact"],
        "num_taken_down": sum(takedown.num_pictures for takedown in release.takedowns),
        "size": next((name for limit, name in HUB_SIZES if release.num_released < limit), "n>10M"),
        "paths": _paths(release),
        "judged": [key for key in KEYS if key in release.engine.assessed and key not in release.engine.only_affirmed],
        "affirmed": [key for key in KEYS if key in release.engine.only_affirmed],
        "num_attributes": len(KEYS),
        "missing": [key for key in KEYS if key not in release.engine.assessed],
        "texts": TEXTS[release.members],
        "origins": _origins(release),
    }


def _paths(release: ReleaseRecord) -> list[str]:
    """Return which files the hub's viewer and `datasets` read: else they would take other tables for data. Of a tree
    it is the extensions of its pictures."""
    paths = sorted(map(printable, release.sha256))
    return [f"**/*{suffix}" for suffix in _suffixes(paths)] if release.file_format == "tree" else paths


def _suffixes(names: Iterable[str]) -> list[str]:
    """Return the extensions, with the dot, of the pictures in a tree."""
    return sorted({posixpath.splitext(name)[1] for name in names} - {"", *RELEASED_WITH_IMAGE})


def _patterns(names: Sequence[str]) -> list[str]:
    """Return patterns of the pictures in a tree, at its top and below; names without an extension are their own."""
    of_suffixes = [f"{folder}*{glob.escape(suffix)}" for suffix in _suffixes(names) for folder in ("", "**/")]
    return of_suffixes + [glob.escape(name) for name in names if not posixpath.splitext(name)[1]]


def _any_case(extension: str) -> str:
    """Return a pattern of files with this extension in lower case, upper case or both."""
    return "*." + "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in extension)


def write_documents(out: Place, release: ReleaseRecord) -> dict[str, str]:
    """Write the documents, and return file name -> sha256 in hex."""
    contents = documents(release)
    for name, content in contents.items():
        out.at(name).write(content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def _origins(release: ReleaseRecord) -> str:
    """Return what became of texts that lead to the original of a cleaned or covered picture; empty without any."""
    if release.origins == "kept":
        return "Texts of cleaned and covered pictures still lead to their originals"
    if not release.num_without_origin:
        return ""
    pictures = number_of(release.num_without_origin, "cleaned or covered picture")
    return f"URLs, hashes and sizes of originals were removed from the texts of {pictures}"


def _croissant(release: ReleaseRecord, facts: Mapping[str, Any]) -> dict[str, Any]:
    engine = release.engine
    run = f"urn:sha256:{release.run_sha256}"
    return {
        "@context": json.loads(_text("croissant_context.json")),
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": facts["name"],
        "description": f"{release.num_released} images, released under the privacy policy {release.policy}.",
        "rai:personalSensitiveInformation": [
            f"{said}: {', '.join(names)}"
            for said, names in (
                ("looked for, and left in or taken out as the policy says", [k for k in KEYS if k in engine.assessed]),
                ("not looked for, so it may be there", facts["missing"]),
            )
            if names
        ],
        "rai:dataPreprocessingProtocol": [
            f"privsieve filter, policy {release.policy} (sha256 {release.policy_sha256}): "
            + ", ".join(f"{count} {action}" for action, count in release.actions.items()),
            *filter(None, [facts["origins"]]),
        ],
        "rai:machineAnnotationTools": [f"privsieve {engine.name}, protocol {engine.protocol}"],
        "prov:wasDerivedFrom": {"@id": run, "@type": "prov:Entity", "prov:label": "the scan"},
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:type": "filter",
            "prov:label": f"privsieve {release.privsieve}",
            "prov:used": {"@id": run},
        },
        **_distribution(release),
    }


def _distribution(release: ReleaseRecord) -> dict[str, Any]:
    files, sets, records = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    pictures: dict[str, Any] = {"@type": "cr:FileSet", "@id": "pictures", "encodingFormat": PICTURE_ENCODINGS}
    if release.file_format == "parquet":
        files += [_file(name, sha256, "application/x-parquet") for name, sha256 in release.sha256.items()]
    elif release.file_format == "tree":
        names = sorted(map(printable, release.sha256))
        if release.members == "all":  # files of every kind are beside the pictures
            names = [name for name in names if extension_of(name) in IMAGE_EXTENSIONS]
        patterns = _patterns(names)
        sets += [pictures | {"includes": patterns}] if patterns else []
    else:
        files += [_file(name, sha256, "application/x-tar") for name, sha256 in release.sha256.items()]
        shards = [{"@id": name} for name in release.sha256]
        patterns = [_any_case(extension) for extension in sorted(IMAGE_EXTENSIONS)]
        sets += [pictures | {"containedIn": shards, "includes": patterns}] if shards else []
    if sets:
        content = {"fileSet": {"@id": "pictures"}, "extract": {"fileProperty": "content"}}
        name, kind = "images/content", "sc:ImageObject"
        field = {"@type": "cr:Field", "@id": name, "name": name, "dataType": kind, "source": content}
        records.append({"@type": "cr:RecordSet", "@id": "images", "name": "images", "field": [field]})
    return {"distribution": files + sets, "recordSet": records}


def _file(name: str, sha256: str, encoding: str) -> dict[str, Any]:
    facts = {"name": name, "contentUrl": name, "encodingFormat": encoding, "sha256": sha256}
    return {"@type": "cr:FileObject", "@id": name, **facts}
