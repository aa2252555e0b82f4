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
    """permalink domain host sha crc crc32 blake2 blake3 checksum checksums digest etag pdq fingerprint
    file files filename filenames filepath filesize path paths folder directory bytes
    exif xmp iptc gps thumbnail thumbnails preview emb embs
    origin original orig source src""".split()  # noqa: SIM905
)
"""A field is about the scanned file if its name has one of these words, such as `source_page` and `originalWidth`."""

_NAMES = frozenset(
    """key width height image_width image_height img_width img_height size image_size img_size content_length
    resolution image_resolution""".split()  # noqa: SIM905
)
"""Or if this is its whole name: `box_width` is not about the file."""

_PARTS = re.compile(r"url|uri|href|link|hash|md5|sha\d|embed|feature|vector|latent")
"""Or if this is anywhere in its name: `IMGURL`, `ahash64`, `faceEmbedding`. An embedding of the scanned picture
finds it among others, and one of a face recognises the person who is covered."""

_MODELS = re.compile("clip|dino")
_OF_NUMBERS = re.compile("similarity|score")
"""The name of a model is that of its embedding, unless it says that it is a number, as `clip_similarity_vitb32`."""

_ID = re.compile("(.*?)ids?[0-9]*")
_KINDS = frozenset("class subclass cls category subcategory supercategory cat label lang language".split())  # noqa: SIM905
"""All ids lead to the file or to the page it is from, but for those of these: `class_id`, `labelid`, `langIds`."""

_ORDINARY = frozenset(
    """security tourist tourists tourism curly hashtag hashtags blink blinking featured clipart clipped
    dinosaur dinosaurs acid aid aids android arid asteroid avoid bid braid candid centroid centroids covid
    cuboid did ellipsoid eyelid fluid grid grids hid humid hybrid invalid kid kids lid lids liquid maid mid
    orchid paid placid plaid polaroid pyramid pyramids raid rapid rigid said solid squid trapezoid valid vivid
    void""".split()  # noqa: SIM905
)
"""Words that only look like a part or an id."""

_WORD = re.compile("[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z]+[0-9]*")

_POINTER = re.compile(
    r"(?:[a-z0-9+.-]{0,16}(?::\\?/\\?/|%3a%2f%2f)|www\.|data:[a-z]{1,16}/)\S+"
    r"|\\?/\\?/[^\s/\\]+\\?/\S+"
    r"|(?<![a-z0-9-])(?:[a-z0-9-]++\.){1,8}(?:[a-z]{2,63}|xn--[a-z0-9-]{1,59})(?::[0-9]{1,5})?(?:\\?/|%2f)\S+"
    r"|[0-9a-f]{32,}",
    re.IGNORECASE | re.ASCII,
)
"""A URL, also one that is quoted in JSON or in another URL or has no scheme (`//host/path`, `host.tld/path`), or a hash
in a text, whatever the name of its field."""

REMOVED_ORIGIN = "[origin]"
"""Stands in a text where a URL or a hash was."""


def leads_to_origin(name: str) -> bool:
    """Return whether a field of this name leads to the scanned file.

    >>> [leads_to_origin(name) for name in ("image_url", "originalWidth", "SHA256", "__key__", "caption", "class_id")]
    [True, True, True, True, False, False]
    """
    words, rest = _words(name), name.lower()
    for word in _ORDINARY.intersection(words):
        rest = rest.replace(word, "_")
    return (
        not _WORDS.isdisjoint(words)
        or "_".join(words) in _NAMES
        or _PARTS.search(rest) is not None
        or (_MODELS.search(rest) is not None and _OF_NUMBERS.search(rest) is None)
        or any(map(_is_id, ["", *words], words))
        or _POINTER.search(name) is not None
    )


def without_origins(value: Any, released_sha256: str = "") -> Any:
    """Return a value of JSON, of a text or of a cell without what leads to the scanned file, at any depth.
    released_sha256: stands in place of a text in a field `sha256` at the top; empty removes this field, too."""
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


def _is_id(before: str, word: str) -> bool:
    """Return whether a word of a name says that the field is an id. before: the word before it."""
    match = _ID.fullmatch(word)
    return match is not None and word not in _ORDINARY and (match[1] or before) not in _KINDS


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
