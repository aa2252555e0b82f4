"""One sample and its columns. A sample is one image of the corpus with what lies beside it.

This is the noun that flows through everything: a shard holds samples, a sample becomes a row.
"""

import re
from dataclasses import dataclass, field

import pyarrow as pa

from ingest.fault import Fault


@dataclass(frozen=True)
class Column:
    """A column of the row per image."""

    name: str
    type: pa.DataType

    unit: str
    """Empty if it has none."""

    meaning: str
    nullable: bool = True

    is_later: bool = False
    """Whether rows of older versions lack the column. They are read as null, so it must be nullable."""


SAMPLE_COLUMNS: tuple[Column, ...] = (
    Column("shard", pa.string(), "", "file or folder that holds the sample, relative to the source", False),
    Column("index", pa.int64(), "", "position of the sample in its shard, from 0", False),
    Column("key", pa.string(), "", "the sample's name in its shard", False),
    Column("category", pa.string(), "", "class that the corpus gives, null if it gives none"),
    Column("width", pa.int32(), "px", "displayed width of the first frame, null if unknown"),
    Column("height", pa.int32(), "px", "displayed height of the first frame, null if unknown"),
    Column("format", pa.string(), "", "image format recognised from the content, null if unknown"),
    Column("num_frames", pa.int32(), "", "frames or pages in the file, null if not decoded"),
    Column("num_frames_scanned", pa.int32(), "", "frames or pages that were scanned, starting with the first"),
    Column(
        "unseen",
        pa.list_(pa.string()),
        "",
        "kinds of content in the file that were not scanned, sorted; empty if there is none, null if unknown",
        is_later=True,
    ),
    Column(
        "unseen_bytes",
        pa.int64(),
        "bytes",
        "approximate size of that content in the file; 0 if there is none, null if unknown",
        is_later=True,
    ),
    Column("num_bytes", pa.int64(), "bytes", "encoded size, null if there are no bytes"),
    Column("sha256", pa.string(), "hex", "hash of the encoded bytes, null if there are no bytes"),
)
"""What is known of a sample before any engine looks at it."""


@dataclass(frozen=True)
class Sample:
    """One image of a corpus, as its source holds it. Fields without a docstring are as in `SAMPLE_COLUMNS`."""

    shard: str
    index: int
    key: str
    category: str | None

    encoded: bytes = field(repr=False)
    """The image file's bytes; empty if there is a fault."""

    fault: Fault | None = None
    """Why there are no bytes to decode."""


def printable(name: str) -> str:
    """A file or member name as valid text: undecodable bytes and control characters become backslash escapes.

    >>> printable("caf\\udce9\\n")
    'caf\\\\xe9\\\\n'
    """
    name = re.sub("[\ud800-\udc7f\udd00-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", name)  # JSON may hold these
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
