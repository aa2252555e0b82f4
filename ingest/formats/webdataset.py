"""WebDataset shards: tar files as img2dataset and LAION write them, plain or compressed as a whole (gzip, Zstandard).

Consecutive members with the same key (the path up to the first dot of the base name) are one sample. Its image is
the member whose extension or first bytes are an image's; no member is decoded by extension or unpickled.
Damage in a tar becomes a sample of its own that cannot be read, so that it shows in every count. A release has new
headers, and of the members next to the image only those that `ingest.formats.members` allows.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from ingest.errors import Fault
from ingest.formats.members import (
    MAX_LISTED_BYTES,
)
from ingest.formats.shard import files_below
from ingest.formats.tar import TarDamage
from ingest.formats.tar_samples import MAX_MEMBERS, Group, content, damaged, groups, key_and_extension, members
from ingest.formats.webdataset_release import write
from ingest.sample import Locator, Sample, Slice, caption_of, cut, domain_of, printable, url_sha256_of
from ingest.storage.place import Place

__all__ = [
    "SUFFIXES",
    "CategoryProbe",
    "captions",
    "category_probe",
    "field_at",
    "names",
    "read",
    "shards",
    "slices",
    "write",
]

USUAL_KEY = 255
"""Characters of a key above this count as bytes of the slice that holds it."""

READ_MEMBERS = ("cls", "json", "txt")
"""Members next to the image that are read: category, fields and caption."""
CAPTION_FIELD = "caption"
URL_FIELDS = ("url", "URL")
DEFAULT_FIELD = "category"
MAX_PROBED_SAMPLES = 100
"""Number of samples of a shard that `category_probe` reads."""

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd")
"""Suffixes of shards. Compression is recognised by content."""


def shards(root: Place) -> list[str]:
    """Return every tar below the folder, as paths relative to it, sorted."""
    return [path for path in files_below(root) if path.lower().endswith(SUFFIXES)]


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with content(root, shard) as stream:
        yield from cut(shard, (_located(index, item) for index, item in enumerate(groups(members(stream)))))


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    with content(root, slice_.shard) as stream:
        for locator in slice_.locators:
            parts = _parts(stream, locator, category)
            encoded, fields = parts.get("image", b""), _parsed(parts.get("json", b""))
            fault = Fault(*locator["fault"]) if "fault" in locator else None
            if fault is None and len(encoded) != locator["image"][1]:
                encoded, fault = b"", Fault("unreadable", "the shard is shorter than when it was listed")
            url = _url(fields)
            yield Sample(
                shard=printable(slice_.shard),
                index=locator["index"],
                key=printable(locator["key"]),
                category=_category(parts, fields, category),
                encoded=encoded,
                fault=fault,
                caption=_caption(parts, fields),
                url_sha256=None if url is None else url_sha256_of(url),
                domain=None if url is None else domain_of(url),
            )


def names(root: Place, shard: str, category: str | None) -> Iterator[tuple[str, str | None]]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, category):
            for locator in slice_.locators:
                parts = _parts(stream, {name: span for name, span in locator.items() if name in READ_MEMBERS}, category)
                yield printable(locator["key"]), _category(parts, _parsed(parts.get("json", b"")), category)


def captions(root: Place, shard: str) -> Iterator[str | None]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, None):
            for locator in slice_.locators:
                spans = {name: span for name, span in locator.items() if name in ("json", "txt")}
                parts = _parts(stream, spans, None)
                yield _caption(parts, _parsed(parts.get("json", b"")))


def _located(index: int, item: Group | TarDamage) -> tuple[Locator, int]:
    if isinstance(item, TarDamage):
        return damaged(index, item), 0
    fault = item.fault()
    # The span is not read, but it is part of the hash by which a continued scan recognises its slices.
    span = [[part.member.start, part.member.end] for part in item.parts[:MAX_MEMBERS]]
    locator: Locator = {"index": index, "key": item.key, "span": span}
    for part in item.parts[:MAX_MEMBERS]:
        extension = key_and_extension(part.member.name)[1]
        if extension in READ_MEMBERS and part.is_plain and part.member.size <= MAX_LISTED_BYTES:
            locator[extension] = [part.member.data_start, part.member.size]
    long_key = max(0, len(item.key) - USUAL_KEY)
    if item.image is None:
        return locator | {"fault": [fault.reason, fault.message] if fault else []}, long_key
    return locator | {"image": [item.image.data_start, item.image.size]}, item.image.size + long_key


@dataclass(frozen=True)
class CategoryProbe:
    """Facts about the first samples of a shard from which categories may be derived."""

    num_samples: int

    fields: list[str]
    """Names of the fields of JSON members, each once, printable, in order of appearance."""

    num_with_category: int
    """Number of samples that have a category."""

    num_contradicting: int
    """Number of samples whose `.cls` member and JSON field contradict each other."""


def category_probe(root: Place, shard: str, category: str | None) -> CategoryProbe:
    """Probe the first `MAX_PROBED_SAMPLES` samples of a shard. StorageError if the storage fails."""
    fields, num_with_category, num_contradicting = dict[str, None](), 0, 0
    with content(root, shard) as stream:
        locators = [_located(0, item)[0] for item in islice(groups(members(stream)), MAX_PROBED_SAMPLES)]
        for locator in locators:
            spans = {name: span for name, span in locator.items() if name in ("cls", "json")}
            parts = _parts(stream, spans, None)
            parsed = _parsed(parts.get("json", b""))
            fields |= dict.fromkeys(map(printable, parsed))
            member = _category({"cls": parts["cls"]}, {}, None) if "cls" in parts else None
            field = _category({}, parsed, None if category == "cls" else category)
            chosen = {None: member if "cls" in parts else field, "cls": member}.get(category, field)
            num_with_category += chosen is not None
            num_contradicting += None not in (member, field) and member != field
    return CategoryProbe(len(locators), list(fields), num_with_category, num_contradicting)


def _parts(stream: BinaryIO, locator: Locator, field: str | None) -> dict[str, bytes]:
    """Read the image and the members used with it, in the order of their offsets; `.cls` only if it counts."""
    wanted = ("image", "json", "txt", *(("cls",) if field in (None, "cls") else ()))
    parts = dict[str, bytes]()
    for (start, num_bytes), name in sorted((locator[name], name) for name in wanted if name in locator):
        stream.seek(start)
        parts[name] = stream.read(num_bytes)
    return parts


def _category(parts: dict[str, bytes], fields: dict[str, Any], field: str | None) -> str | None:
    """Return the JSON member's field, or the .cls member (named as "cls", or if no field is named)."""
    if "cls" in parts:
        text = parts["cls"].decode("utf-8", "backslashreplace").strip()
        return printable(text) or None
    value = field_at(fields, field or DEFAULT_FIELD)
    return printable(str(value)) if isinstance(value, str | int) and str(value) else None


def field_at(fields: dict[str, Any], name: str) -> Any:
    """Return the field of this name, else the nested field that its dotted path leads to, or None.

    >>> field_at({"scene": {"kind": "street"}}, "scene.kind")
    'street'
    """
    if name in fields:
        return fields[name]
    outer, _, inner = name.partition(".")
    child = fields.get(outer)
    return field_at(child, inner) if inner and isinstance(child, dict) else None


def _caption(parts: dict[str, bytes], fields: dict[str, Any]) -> str | None:
    """Return the caption of the .txt member, else of the JSON member."""
    written = caption_of(parts.get("txt", b""))
    field = fields.get(CAPTION_FIELD)
    return written if written is not None or not isinstance(field, str) else caption_of(field)


def _url(fields: dict[str, Any]) -> str | None:
    given = (fields.get(name) for name in URL_FIELDS)
    return next((url for url in given if isinstance(url, str)), None)


def _parsed(member: bytes) -> dict[str, Any]:
    """Return the fields of a JSON member; none if it holds anything else."""
    try:
        fields = json.loads(member)
    except (ValueError, RecursionError):  # hostile nesting is not JSON either
        return {}
    return fields if isinstance(fields, dict) else {}
