"""Files that belong to a picture, and which of them a release includes.

Engines look only at the picture. By default its text and JSON files are released without a look at their content;
anything else may be a second picture or a program and is left out. A policy can ask for less or for more.
"""

import json
import posixpath
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ingest.images.files.formats import EXTENSIONS
from ingest.images.files.magic import HEAD_BYTES, picture_format, picture_in_place_of_text

Members = Literal["listed", "image-only", "all"]
"""listed: extensions of `LISTED` with fitting content. image-only: none. all: everything that is not a picture."""

IMAGE_EXTENSIONS = EXTENSIONS | {"svg", "jxl"}
"""Extensions of pictures, in lower case."""

LISTED = ("txt", "json", "cls")
MAX_LISTED_BYTES = 2**20
"""Larger members are not read, so their content is unknown."""

MAX_FOLDERS = 100
"""Maximum depth of folders in the name of a released file."""

_REORDERING = frozenset(["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"])
"""Unicode's classes of characters (U+202A–U+202E, U+2066–U+2069) by which `gpj.exe` can be shown as `exe.jpg`."""


def extension_of(name: str) -> str:
    """Return the extension in lower case, without the dot; empty if the name has none.

    >>> extension_of("a/0001.seg.PNG"), extension_of("a.b/0001")
    ('png', '')
    """
    return posixpath.basename(name).rpartition(".")[2].lower() if "." in posixpath.basename(name) else ""


def is_hidden(name: str) -> bool:
    """Return whether a file or a folder above it begins with a dot, as macOS names what it stores beside a file.

    >>> [is_hidden(name) for name in ("a/._0001.jpg", ".cache/0001.jpg", "./a/../0001.jpg", "..a.jpg")]
    [True, True, False, False]
    """
    if not name.startswith(".") and "/." not in name:  # nearly always
        return False
    return any(part.startswith(".") and part != "." and not part.startswith("..") for part in name.split("/"))


def is_listed(name: str, num_bytes: int) -> bool:
    """Return whether `listed` allows a member of this name and size, provided that `holds_what_it_says`."""
    return extension_of(name) in LISTED and num_bytes <= MAX_LISTED_BYTES


def begins_like_picture(name: str, content: bytes) -> bool:
    """Return whether a member begins like a picture. Captions that begin with the mark of a format do not count."""
    format_of = picture_in_place_of_text if extension_of(name) in LISTED else picture_format
    return format_of(content[:HEAD_BYTES]) is not None


def holds_what_it_says(name: str, content: bytes) -> bool:
    """Return whether a listed member is text in UTF-8 without NUL or JSON, as its extension says; never a picture."""
    if begins_like_picture(name, content) or b"\0" in content:
        return False
    try:
        text = content.decode()
        if extension_of(name) == "json":
            json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):  # hostile nesting is not JSON either
        return False
    return True


Mask = Callable[[str], str]
"""Takes a text that goes with a picture, and returns it without what may not be released."""

_PLAIN_NAME = re.compile("[A-Za-z_]{1,40}")
"""Names of fields that are not masked."""


def edited_member(name: str, content: bytes, edit: Callable[[Any], Any]) -> tuple[bytes, bool] | None:
    """Return a listed member after an edit, and whether it says something else now; None if the edit fails.

    JSON is written anew even if nothing in it changes, since a name that occurs twice has a value that is not read.
    content: one that `holds_what_it_says`. edit: takes the text, or the value of the JSON, and returns the new one;
    ValueError if there is none.
    """
    text, is_json = content.decode(), extension_of(name) == "json"
    try:
        before = json.loads(text.removeprefix("\ufeff")) if is_json else text
        after = edit(before)
        return (json.dumps(after) if is_json else after).encode(), after != before
    except (ValueError, RecursionError):
        return None


def masked_value(value: Any, mask: Mask) -> Any:
    """Return a value of JSON or of a cell with all texts in it masked. ValueError if a name of a field would be."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list | tuple):  # an entry of an Arrow map is a tuple
        return type(value)(masked_value(child, mask) for child in value)
    if isinstance(value, dict):
        if any(_PLAIN_NAME.fullmatch(name) is None and mask(name) != name for name in value):
            raise ValueError("the name of a field holds what must be masked")
        return {name: masked_value(child, mask) for name, child in value.items()}
    return value


def kind_of(name: str) -> str:
    """Return the name of a file's kind in counts of omitted files: its extension, if that is short and plain."""
    extension = extension_of(name)
    if not extension:
        return "(no extension)"
    return extension if re.fullmatch("[a-z0-9_-]{1,16}", extension) else "(other)"


def name_fault(name: str) -> str | None:
    """Return why a file of this name may not be released, or None: it must be a file below the folder."""
    odd = "" if name.isascii() and name.isprintable() else name  # most names are, and checking each character is slow
    is_reordered = any(unicodedata.bidirectional(c) in _REORDERING for c in odd)
    faults = (
        (not name or name.endswith("/"), "an empty name, or one of a folder"),
        (re.search("[\ud800-\udfff]", odd) is not None, "a name that is not valid UTF-8"),
        (name.startswith("/"), "an absolute name"),
        (".." in re.split(r"[/\\]", name), "a name that leads out of the folder"),
        (posixpath.basename(name) == ".", "the name of a folder"),
        ("\\" in name, "a backslash in its name, which separates folders on Windows"),
        (name.count("/") > MAX_FOLDERS, f"a name of more than {MAX_FOLDERS} folders"),
        (any(unicodedata.category(c) == "Cc" for c in odd), "control characters in its name"),
        (is_reordered, "characters in its name that change the order in which it is shown"),
        (re.match("[A-Za-z]:", name), "a name that begins with a drive letter"),
    )
    return next((fault for is_at_fault, fault in faults if is_at_fault), None)


class ArchiveNames:
    """The names in an archive: each occurs once, and none is both a file and a folder of others."""

    def __init__(self) -> None:
        self._files, self._folders = set[str](), set[str]()

    def add(self, names: Sequence[str]) -> bool:
        """Add all names and return True, or add none and return False if one clashes."""
        new, above = set[str](), set[str]()
        for name in map(posixpath.normpath, names):
            if name in new:
                return False
            new.add(name)
            while name := posixpath.dirname(name):
                above.add(name)
        clashes = (new & above, new & self._files, new & self._folders, above & self._files)
        if any(clashes):
            return False
        self._files |= new
        self._folders |= above
        return True
