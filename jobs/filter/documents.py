"""Documents that readers of a release expect next to it: `README.md`, a dataset card, `datasheet.md`, `croissant.json`.

All are made from `release.json` alone, so that a takedown can write them again. They say what was measured, by which
engine and on what, and name what was not; none describes what the command does not know, such as a licence.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingest.errors import number_of
from ingest.formats.released import CARD, CHANGES, CROISSANT, DATASHEET, DECISIONS, RELEASE
from ingest.formats.tree import RELEASED_WITH_IMAGE
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.filter.datasheet import datasheet
from jobs.filter.shift import shift_in_words
from scoring.taxonomy import KEYS

HUB_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
"""`size_categories` of the Hugging Face hub: below this many images, this name."""

PICTURE_PATTERNS = [f"*.{extension}" for extension in ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")]

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "prov": "http://www.w3.org/ns/prov#",
    "dct": "http://purl.org/dc/terms/",
    **{
        name: f"cr:{name}"
        for name in (
            *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field"),
            *("fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
            *("key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated", "replace"),
            *("samplingRate", "separator", "source", "subField", "transform"),
        )
    },
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
}
"""The context that Croissant 1.1 prescribes (docs.mlcommons.org/croissant), and the prefix of PROV."""


def documents(release: Mapping[str, Any]) -> dict[str, bytes]:
    """Return file name -> content. release: what `release.json` says, which has at least `engine` and `format`."""
    croissant = json.dumps(_croissant(release), indent=2) + "\n"
    card, sheet = "\n".join(_card(release)), "\n".join(datasheet(release, _name(release), _num_released(release)))
    return {CARD: card.encode(), DATASHEET: sheet.encode(), CROISSANT: croissant.encode()}


def write_documents(out: Place, release: Mapping[str, Any]) -> dict[str, str]:
    """Write the documents, and return file name -> sha256 in hex."""
    made = documents(release)
    for name, content in made.items():
        out.at(name).write(content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}


def _name(release: Mapping[str, Any]) -> str:
    return f"release-{release['run_sha256'][:12]}"


def _num_released(release: Mapping[str, Any]) -> int:
    return sum(count for action, count in release["actions"].items() if action != "drop")


def _is_list(release: Mapping[str, Any]) -> bool:
    """Return whether the release is a list of URLs."""
    return release.get("urls") is not None


def _card(release: Mapping[str, Any]) -> Iterator[str]:
    engine, num_released = release["engine"], _num_released(release)
    yield from ["---", f"pretty_name: {_name(release)}"]
    size = next((name for limit, name in HUB_SIZES if num_released < limit), "n>10M")
    yield from ["size_categories:", f"- {size}", "tags:", "- privsieve", "- croissant", *_configs(release), "---", ""]
    yield from [f"# {_name(release)}", ""]
    if release["made_up"]:
        yield from [f"**{release['made_up']}.**", ""]
    yield (
        f"{num_released:,} of {release['num_images']:,} images that were scanned ({release['scope']}), released by "
        f"privsieve {release['privsieve']} under the policy `{printable(release['policy'])}`."
    )
    if _is_list(release):
        yield from ["", *_listed(release["urls"])]
    yield from ["", "| decided by | action | images |", "|---|---|---|"]
    for rule, actions in release["rules"].items():
        for action, count in actions.items():
            yield f"| `{printable(rule)}` | {action} | {count:,} |"
    yield from ["", *_measured(release, engine), "", *_evidence(release, engine), "", "## Files", ""]
    yield f"`{DECISIONS}` says why of each image, `{RELEASE}` has all counts and hashes. `sha256sum -c SHA256SUMS` and"
    yield from ["`privsieve verify` check them.", ""]


def _listed(urls: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"This is a list of URLs without pictures. Its table had {urls['num_listed']:,} rows: "
        + ", ".join(f"{count:,} {action}" for action, count in urls["actions"].items())
        + f", {number_of(urls['num_failed'], 'failed download')}, {urls['num_not_scanned']:,} not scanned, "
        f"{urls['num_without_url']:,} without a URL. What a URL gives may have changed since: `privsieve_sha256` is "
        "the hash of the picture that was judged."
    )
    gone = (
        f"Takedowns have since removed {number_of(urls['num_taken_down'], 'row')}. " if urls["num_taken_down"] else ""
    )
    yield f"{gone}The list has {number_of(urls['num_released'], 'row')}."
    if urls["flags_only"]:
        yield "The rows that the policy drops are in the list, too; `privsieve_action` says which."


def _configs(release: Mapping[str, Any]) -> Iterator[str]:
    """Yield which files the hub's viewer and `datasets` read: else they would take the decisions for data. Of a tree it
    is the extensions of its pictures."""
    paths = sorted(map(printable, release["sha256"]))
    if release["format"] == "tree" and not _is_list(release):
        suffixes = {posixpath.splitext(name)[1] for name in paths} - {"", *RELEASED_WITH_IMAGE}
        paths = [f"**/*{suffix}" for suffix in sorted(suffixes)]
    if paths:
        names = "\n".join(f"    - {json.dumps(path)}" for path in paths)
        yield from ["configs:", "- config_name: default", "  data_files:", "  - split: train", "    path:", names]


def _measured(release: Mapping[str, Any], engine: Mapping[str, Any]) -> Iterator[str]:
    assessed = [key for key in KEYS if key in engine["assessed"]]
    others = [key for key in KEYS if key not in engine["assessed"]]
    yield from ["## What was measured", ""]
    yield f"- Engine `{engine['name']}`, protocol `{engine['protocol']}`. It can judge {len(assessed)} of {len(KEYS)}"
    yield f"  attributes: {', '.join(f'`{key}`' for key in assessed) or 'none'}."
    if others:
        yield f"- Attributes that nothing looked for: {', '.join(f'`{key}`' for key in others)}."
    if (damage := release["damaged_shards"])["num_shards"]:
        yield f"- {damage['num_shards']:,} damaged shards of the source: an unknown number of images was not seen."
    if release["num_unseen_kept"]:
        yield f"- {release['num_unseen_kept']:,} released files hold content that was not scanned."
    if release["num_unseen_removed"]:
        yield f"- Content that was not scanned was removed from {release['num_unseen_removed']:,} released files."
    if release["second_look"] and release["actions"].get("redact"):
        yield f"- Covered pictures were examined again by `{release['second_look']}`, which then found none of the"
        yield "  attributes that were to be covered."
    if release.get("verified_by"):
        yield f"- Then `{printable(release['verified_by'])}` examined them, and found none of these either."
    if release["guarantee"]:
        yield f"- Guarantee: {release['guarantee']['promise']}. It assumes: {release['guarantee']['assumption']}."
    if (changes := release.get("changes")) is not None:
        counts = (
            f"{changes['num_added']:,} added, {changes['num_removed']:,} removed, {changes['num_changed']:,} changed"
        )
        yield f"- Pictures since the release before: {counts} (`{CHANGES}`)."
    if (shards := release.get("taken_over")) is not None:
        yield f"- Shards taken over from the release before: {shards['num_shards']:,}, new: {shards['num_written']:,}."
    if release.get("num_removed_before"):
        yield f"- Taken down before this release: {number_of(release['num_removed_before'], 'picture')}; none is in it."
    for line in shift_in_words(release["shift"]) if release.get("shift") is not None else ():
        yield f"- {line[:1].upper()}{line[1:]}."
    if (taken := release.get("takedowns")) is not None:
        yield f"- Taken down after the release: {number_of(sum(step['num_pictures'] for step in taken), 'picture')}."


def _evidence(release: Mapping[str, Any], engine: Mapping[str, Any]) -> Iterator[str]:
    """Yield facts for an assessment by GDPR Art. 35 and for data governance by Art. 10 of Regulation (EU) 2024/1689."""
    covered = release["actions"].get("redact", 0)
    texts = {
        "image-only": "texts next to the pictures were left out",
        "listed": "texts next to the pictures are in the release",
        "all": "all files next to the pictures are in the release",
    }[release["members"]]
    if release.get("texts") == "masked":
        texts += f", and what text rules found in them is masked ({release['num_texts_masked']:,} texts)"
    yield from [
        "## Evidence for a DPIA (GDPR Art. 35) and for data governance (AI Act Art. 10)",
        "",
        "Facts of this release only. Whether they suffice is for the people in charge to judge.",
        "",
        "| asked | fact |",
        "|---|---|",
        f"| personal data in the pictures | estimated by `{engine['name']}` (`{engine['protocol']}`), see above |",
        f"| measures taken | {release['actions']['drop']:,} images dropped, {covered:,} covered, "
        f"{release['actions']['flag']:,} released and flagged |",
        f"| texts | {texts}; the policy decided by what the run recorded |",
        f"| origin | a scan whose record has the sha256 `{release['run_sha256']}` |",
        f"| preparation | policy with the sha256 `{release['policy_sha256']}`; files {release['files']} |",
        "| data gaps | attributes that nothing looked for, and damaged shards, see above |",
        "",
        "Not assessed by privsieve: legal basis and consent, necessity and proportionality, licences, whether the",
        "images are representative, bias between groups of people, and how often the engine errs on these images",
        "(`privsieve audit` and `evaluate` measure that with labels).",
    ]


def _croissant(release: Mapping[str, Any]) -> dict[str, Any]:
    engine = release["engine"]
    run = f"urn:sha256:{release['run_sha256']}"
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": _name(release),
        "description": f"{_num_released(release)} images, released under the privacy policy {release['policy']}.",
        "rai:personalSensitiveInformation": list(_sensitive(engine["assessed"])),
        "rai:dataPreprocessingProtocol": [
            f"privsieve filter, policy {release['policy']} (sha256 {release['policy_sha256']}): "
            + ", ".join(f"{count} {action}" for action, count in release["actions"].items())
        ],
        "rai:machineAnnotationTools": [f"privsieve {engine['name']}, protocol {engine['protocol']}"],
        "prov:wasDerivedFrom": {"@id": run, "@type": "prov:Entity", "prov:label": "the scan"},
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:type": "filter",
            "prov:label": f"privsieve {release['privsieve']}",
            "prov:used": {"@id": run},
        },
        **_distribution(release),
    }


def _sensitive(assessed: Sequence[str]) -> Iterator[str]:
    """Yield what was looked for: which of it the released pictures show is not known here."""
    for names, said in (
        ([key for key in KEYS if key in assessed], "looked for, and left in or taken out as the policy says"),
        ([key for key in KEYS if key not in assessed], "not looked for, so it may be there"),
    ):
        if names:
            yield f"{said}: {', '.join(names)}"


def _distribution(release: Mapping[str, Any]) -> dict[str, Any]:
    files, sets, records = list[dict[str, Any]](), list[dict[str, Any]](), [_decisions_records()]
    files.append(_file(DECISIONS, release["decisions_sha256"], "application/x-parquet"))
    pictures: dict[str, Any] = {"@type": "cr:FileSet", "@id": "pictures", "encodingFormat": "image/*"}
    if release["format"] == "parquet" or _is_list(release):
        files += [_file(name, sha256, "application/x-parquet") for name, sha256 in release["sha256"].items()]
    elif release["format"] == "tree":
        sets.append(pictures | {"includes": [f"**/{pattern}" for pattern in PICTURE_PATTERNS]})
    else:
        files += [_file(name, sha256, "application/x-tar") for name, sha256 in release["sha256"].items()]
        shards = [{"@id": name} for name in release["sha256"]]
        sets += [pictures | {"containedIn": shards, "includes": PICTURE_PATTERNS}] if shards else []
    if sets:
        content = {"fileSet": {"@id": "pictures"}, "extract": {"fileProperty": "content"}}
        field = _field("images/content", "sc:ImageObject", content)
        records.append({"@type": "cr:RecordSet", "@id": "images", "name": "images", "field": [field]})
    return {"distribution": files + sets, "recordSet": records}


def _file(name: str, sha256: str, encoding: str) -> dict[str, Any]:
    facts = {"name": name, "contentUrl": name, "encodingFormat": encoding, "sha256": sha256}
    return {"@type": "cr:FileObject", "@id": name, **facts}


def _decisions_records() -> dict[str, Any]:
    columns = ("shard", "key", "sha256", "action", "rule", "reason", "released_sha256")
    fields = [
        _field(f"decisions/{name}", "sc:Text", {"fileObject": {"@id": DECISIONS}, "extract": {"column": name}})
        for name in columns
    ]
    return {"@type": "cr:RecordSet", "@id": "decisions", "name": "decisions", "field": fields}


def _field(name: str, kind: str, source: dict[str, Any]) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": name, "name": name, "dataType": kind, "source": source}
