"""What in the texts of a picture leads to the file that was scanned.

A picture that is released in another form, cleaned or covered, loses it: the scanned file has what the released one
lacks. `_WORDS` and `_NAMES` are the only list of such fields. They are from the columns of img2dataset, LAION, COYO and
DataComp, and from what `privsieve fetch` writes.
"""

import re
from typing import Any, Literal

Origins = Literal["removed", "kept"]
"""Whether the texts of a picture that is written again lose what leads to the scanned file."""

_WORDS = frozenset(
    """url urls uri uris href link links permalink domain host
    sha sha1 sha224 sha256 sha384 sha512 md5 crc crc32 blake2 blake3 xxhash checksum checksums digest etag
    hash hashes phash dhash ahash whash pdq pdqhash fingerprint
    file files filename filenames filepath filesize path paths folder directory bytes
    exif xmp iptc gps thumbnail thumbnails preview
    origin original orig source src""".split()  # noqa: SIM905
)
"""A field is about the scanned file if its name has one of these words, such as `image_url` and `originalWidth`."""

_NAMES = frozenset(
    """key uid uuid guid id sample_id image_id img_id photo_id
    width height image_width image_height img_width img_height size image_size img_size content_length
    resolution image_resolution""".split()  # noqa: SIM905
)
"""Or if this is its whole name: `class_id` and `box_width` are not about the file."""

_WORD = re.compile("[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z]+[0-9]*")

_POINTER = re.compile(
    r"(?:[a-z0-9+.-]{0,16}(?::\\?/\\?/|%3a%2f%2f)|www\.|data:[a-z]{1,16}/)\S+|[0-9a-f]{32,}", re.IGNORECASE | re.ASCII
)
"""A URL, also one that is quoted in JSON or in another URL, or a hash in a text, whatever the name of its field."""

REMOVED_ORIGIN = "[origin]"
"""Stands in a text where a URL or a hash was."""


def leads_to_origin(name: str) -> bool:
    """Return whether a field of this name leads to the scanned file.

    >>> [leads_to_origin(name) for name in ("image_url", "originalWidth", "SHA256", "__key__", "caption", "class_id")]
    [True, True, True, True, False, False]
    """
    words = _words(name)
    return not _WORDS.isdisjoint(words) or "_".join(words) in _NAMES or _POINTER.search(name) is not None


def without_origins(value: Any, released_sha256: str = "") -> Any:
    """Return a value of JSON, of a text or of a cell without what leads to the scanned file, at any depth.

    released_sha256: stands in place of a text in a field `sha256` at the top; empty removes this field, too.
    """
    if isinstance(value, str):
        return _POINTER.sub(REMOVED_ORIGIN, value)
    if isinstance(value, tuple):  # an entry of an Arrow map, whose entries stay
        name, child = value
        return without_origins(name), None if leads_to_origin(str(name)) else without_origins(child)
    if isinstance(value, list):
        return [without_origins(child) for child in value]
    if not isinstance(value, dict):
        return value
    kept = dict[str, Any]()
    for name, child in value.items():
        if released_sha256 and isinstance(child, str) and _words(name) == ["sha256"]:
            kept[name] = released_sha256
        elif not leads_to_origin(name):
            kept[name] = without_origins(child)
    return kept


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
