"""`croissant.json` of a release: its files, its pictures and what was looked for in them, for programs.

Croissant 1.1 with its terms for responsible AI, and the origin in PROV (docs.mlcommons.org/croissant).
`croissant_context.json` is the context that it prescribes, and the prefix of PROV.
"""

import glob
import hashlib
import json
import posixpath
from collections.abc import Sequence
from importlib import resources
from typing import Any

from ingest.formats.members import IMAGE_EXTENSIONS, extension_of
from ingest.formats.released import CROISSANT
from ingest.images.files import formats
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.card import name_of, origins, picture_suffixes
from jobs.releases.record import ReleaseRecord
from scoring.taxonomy import KEYS

PICTURE_ENCODINGS = [form.media_type for form in formats.TABLE]
"""What a set of pictures may hold. Readers such as mlcroissant take the first that they know, and open each file by its
content; `image/*` is none that they know."""


def write_croissant(out: Place, release: ReleaseRecord) -> dict[str, str]:
    """Write the file, and return its name -> its hash."""
    content = f"{json.dumps(_croissant(release), indent=2)}\n".encode()
    out.at(CROISSANT).write(content)
    return {CROISSANT: hashlib.sha256(content).hexdigest()}


def _croissant(release: ReleaseRecord) -> dict[str, Any]:
    engine = release.engine
    context = resources.files("jobs.releases").joinpath("croissant_context.json")
    run = f"urn:sha256:{release.run_sha256}"
    return {
        "@context": json.loads(context.read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": name_of(release),
        "description": f"{release.num_released} images, released under the privacy policy {release.policy}.",
        "rai:personalSensitiveInformation": [
            f"{said}: {', '.join(names)}"
            for said, names in (
                ("looked for, and left in or taken out as the policy says", [k for k in KEYS if k in engine.assessed]),
                ("not looked for, so it may be there", [k for k in KEYS if k not in engine.assessed]),
            )
            if names
        ],
        "rai:dataPreprocessingProtocol": [
            f"privsieve filter, policy {release.policy} (sha256 {release.policy_sha256}): "
            + ", ".join(f"{count} {action}" for action, count in release.actions.items()),
            *filter(None, [origins(release)]),
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


def _patterns(names: Sequence[str]) -> list[str]:
    """Return patterns of the pictures in a tree, at its top and below; names without an extension are their own."""
    of_suffixes = [f"{folder}*{glob.escape(suffix)}" for suffix in picture_suffixes(names) for folder in ("", "**/")]
    return of_suffixes + [glob.escape(name) for name in names if not posixpath.splitext(name)[1]]


def _any_case(extension: str) -> str:
    """Return a pattern of files with this extension in lower case, upper case or both."""
    return "*." + "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in extension)
