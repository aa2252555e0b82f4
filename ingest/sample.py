"""One sample and its columns. A sample is one image of the corpus with its files and metadata.

This is the noun that flows through everything: a shard holds samples, a sample becomes a row.

A slice is the unit of work: consecutive samples of one shard, cut by content alone. The same input always gives the
same slices, so the name of a slice's result file is known beforehand, and if the file exists the slice is done.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from ingest.errors import Fault

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@dataclass(frozen=True)
class Column:
    """A column of the row per image."""

    name: str
    type: pa.DataType

    unit: str
    """Unit; empty if it has none."""

    meaning: str
    nullable: bool = True


class SampleCol:
    """Names of `SAMPLE_COLUMNS`, for code that mypy can check; all columns of the row are in `scoring.table.Col`."""

    SHARD: Final = "shard"
    INDEX: Final = "index"
    KEY: Final = "key"
    CATEGORY: Final = "category"
    WIDTH: Final = "width"
    HEIGHT: Final = "height"
    FORMAT: Final = "format"
    NUM_FRAMES: Final = "num_frames"
    NUM_FRAMES_SCANNED: Final = "num_frames_scanned"
    UNSEEN: Final = "unseen"
    UNSEEN_BYTES: Final = "unseen_bytes"
    NUM_BYTES: Final = "num_bytes"
    SHA256: Final = "sha256"
    PHASH: Final = "phash"
    PDQ: Final = "pdq"
    URL_SHA256: Final = "url_sha256"
    DOMAIN: Final = "domain"
    CAPTION_KINDS: Final = "caption_kinds"


SAMPLE_COLUMNS: tuple[Column, ...] = (
    Column(SampleCol.SHARD, pa.string(), "", "file or folder that holds the sample, relative to the source", False),
    Column(SampleCol.INDEX, pa.int64(), "", "position of the sample in its shard, from 0", False),
    Column(SampleCol.KEY, pa.string(), "", "the sample's name in its shard", False),
    Column(SampleCol.CATEGORY, pa.string(), "", "class that the corpus gives, null if it gives none"),
    Column(SampleCol.WIDTH, pa.int64(), "px", "displayed width of the first frame, null if unknown"),
    Column(SampleCol.HEIGHT, pa.int64(), "px", "displayed height of the first frame, null if unknown"),
    Column(SampleCol.FORMAT, pa.string(), "", "image format recognised from the content, null if unknown"),
    Column(SampleCol.NUM_FRAMES, pa.int64(), "", "frames or pages in the file, null if not decoded"),
    Column(SampleCol.NUM_FRAMES_SCANNED, pa.int64(), "", "frames or pages that were scanned, starting with the first"),
    Column(
        SampleCol.UNSEEN,
        pa.list_(pa.string()),
        "",
        "kinds of content in the file that may not have been scanned, sorted; empty if there is none, null if unknown",
    ),
    Column(
        SampleCol.UNSEEN_BYTES,
        pa.int64(),
        "bytes",
        "approximate size of that content in the file; 0 if there is none, null if unknown",
    ),
    Column(SampleCol.NUM_BYTES, pa.int64(), "bytes", "encoded size, null if there are no bytes"),
    Column(SampleCol.SHA256, pa.string(), "hex", "hash of the encoded bytes, null if there are no bytes"),
    Column(
        SampleCol.PHASH,
        pa.string(),
        "hex",
        "64-bit perceptual hash of the first frame; copies differ in few bits; null if not decoded",
    ),
    Column(
        SampleCol.PDQ,
        pa.list_(pa.string()),
        "hex",
        "PDQ hashes, 64 digits for each scanned frame and each other picture inside the file; null among them: the "
        "file holds, or may hold, a picture without a hash, such as a frame that was not scanned; "
        "null if not decoded, or scanned without `--pdq` or `--hash-list`",
    ),
    Column(
        SampleCol.URL_SHA256,
        pa.string(),
        "hex",
        "hash of the URL that the corpus gives, null if it gives none; the URL itself is not stored",
    ),
    Column(
        SampleCol.DOMAIN,
        pa.string(),
        "",
        "registered domain of that URL, such as example.co.uk; null if the corpus gives no URL, or its host is an "
        "address or under no known public suffix",
    ),
    Column(
        SampleCol.CAPTION_KINDS,
        pa.list_(pa.string()),
        "",
        "kinds of evidence that text rules find in the caption, sorted; empty if they find none, null if there is no "
        "caption",
    ),
)
"""Columns that are known before any engine sees the sample."""


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

    caption: str | None = field(default=None, repr=False)
    """Caption of the image, as `caption_of` cuts it, or None. It may name people: it is never stored, logged or put
    into a message or a prompt."""

    url_sha256: str | None = None
    domain: str | None = None


MAX_CAPTION_BYTES = 4096
"""Limit of a caption, in UTF-8; the rest is ignored."""


def caption_of(raw: bytes | str) -> str | None:
    """Return a caption as valid text of at most `MAX_CAPTION_BYTES`, None if it is blank.

    White space becomes plain spaces and line breaks, other control characters and undecodable bytes backslash escapes.

    >>> caption_of(b"a\x1b[31m dog\r\n")
    'a\\x1b[31m dog'
    """
    text = raw[:MAX_CAPTION_BYTES].decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    lines = text[:MAX_CAPTION_BYTES].strip().splitlines()
    escaped = "\n".join(printable(re.sub(r"\s", " ", line)) for line in lines)
    return escaped.encode()[:MAX_CAPTION_BYTES].decode("utf-8", "ignore").strip() or None


def url_sha256_of(url: bytes | str) -> str | None:
    """Return the column `url_sha256`: the hash of the URL without surrounding white space; None if it is blank."""
    encoded = (url if isinstance(url, bytes) else url.encode("utf-8", "surrogatepass")).strip()
    return hashlib.sha256(encoded).hexdigest() if encoded else None


def printable(name: str) -> str:
    """Return a file or member name as valid text: undecodable bytes and control characters become backslash escapes.

    >>> printable("caf\\udce9\\n")
    'caf\\\\xe9\\\\n'
    """
    name = re.sub("[\ud800-\udc7f\udd00-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", name)  # JSON may hold these
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if text.isprintable():  # nearly always, and the loop takes 50 times as long
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


MAX_URL_CHARACTERS = 2**16
MAX_HOST_CHARACTERS = 253

_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+")
"""Plain names, including punycode. An IP address matches too, but ends in no suffix of the list."""


def domain_of(url: bytes | str) -> str | None:
    """Return the column `domain`, in lower case and punycode; None for an address or an unknown suffix.

    The suffixes are those of the list that publicsuffixlist ships; no server is asked. Only suffixes of registries
    count, not those of providers: `alice.github.io` is `github.io`, since a person's own name on a platform would name
    the person.

    >>> domain_of("https://user:secret@cdn.shop.example.co.uk:8080/a/b.jpg?key=1")
    'example.co.uk'
    """
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url
    if len(text) > MAX_URL_CHARACTERS:
        return None
    try:
        host = (urlsplit(text.strip()).hostname or "").rstrip(".")
        if not host.isascii() and len(host) <= MAX_HOST_CHARACTERS:
            host = host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return None
    host = host.lower()
    if len(host) > MAX_HOST_CHARACTERS or _HOST.fullmatch(host) is None:
        return None
    domain: str | None = _suffixes().privatesuffix(host)
    return domain


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=False, only_icann=True)


def columns_of_url(url: bytes | str | None) -> tuple[str | None, str | None]:
    """Return the columns `url_sha256` and `domain`."""
    return (None, None) if url is None else (url_sha256_of(url), domain_of(url))


MAX_SAMPLES = 1024

MAX_BYTES = 64 * 2**20
"""A slice ends at `MAX_SAMPLES` or at this size of encoded images, but has at least one sample."""

Locator = dict[str, Any]
"""Position of a sample in its shard. Its keys depend on the format, except `index`; JSON types only."""


@dataclass(frozen=True)
class Slice:
    """Some consecutive samples of one shard."""

    shard: str
    """Name relative to the source."""

    number: int
    """Position among the slices of the shard, from 0."""

    is_last: bool
    locators: list[Locator]
    """One locator per sample, in order, by which `Format.read` finds the sample again."""

    num_hidden: int = 0
    """Hidden files in the shard, which are no samples; 0 except in the last slice of a tar."""

    def to_json(self) -> str:
        """Return JSON in ASCII: undecodable file names survive as lone surrogate escapes."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Slice":
        return Slice(**json.loads(text))


def cut(shard: str, samples: Iterable[tuple[Locator, int]]) -> Iterator[Slice]:
    """Cut the samples of one shard, in order, into slices. samples: (locator, encoded size in bytes). An empty shard
    gives one empty slice, so that every shard leaves a trace."""
    number, locators, num_bytes = 0, list[Locator](), 0
    for locator, size in samples:
        if locators and (len(locators) >= MAX_SAMPLES or num_bytes + size > MAX_BYTES):
            yield Slice(shard, number, False, locators)
            number, locators, num_bytes = number + 1, [], 0
        locators.append(locator)
        num_bytes += size
    yield Slice(shard, number, True, locators)
