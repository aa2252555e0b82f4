"""Input and result of every format's `write`: which samples of a shard are released, and what was written.

A corpus may have changed since it was scanned. Then the decisions are about other pictures, and nothing of the shard
may be released. The hash of every copied image shows whether that happened.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ingest.errors import Fault, IncompleteError
from ingest.formats.members import Mask, Members, edited_member, masked_value
from ingest.formats.origins import Origins, without_origins
from ingest.sample import printable

PRIVATE = "not-for-publication"
"""Folder of a release with all that must not be published; the rest of the release may be."""

DECISIONS = f"{PRIVATE}/decisions.parquet"
REDACTIONS = f"{PRIVATE}/redactions.parquet"
CHANGES = f"{PRIVATE}/changes.parquet"
TAKEN_DOWN = f"{PRIVATE}/taken_down.parquet"
SOURCE = f"{PRIVATE}/source.json"
RELEASE = "release.json"
REMOVED = "removed.parquet"
SHA256SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
CHECKSUMS = frozenset([SHA256SUMS, SIGNATURE])
"""Files next to the shards of a release; they are known here so that a release can be scanned again."""

CARD = "README.md"
"""The dataset card of a release."""

CROISSANT = "croissant.json"
"""The same for programs."""

DATASHEET = "datasheet.md"
"""Releases of 1.0 may have it. A takedown removes it, since its counts would no longer be true."""

UNFINISHED = "release.unfinished.json"
"""Written first and removed last. It says that there is something for --resume to continue."""

DONE = "release.unfinished"
"""Folder with two files per finished shard: the record of what was written, and the decisions."""

RELEASE_LEASE = "release.lease.json"
"""Which process writes the release, while one does."""

TAKEDOWN_STAGED = "takedown.unfinished"
"""Folder with what a takedown writes, until all of it is there."""

TAKEDOWN_JOURNAL = "takedown.unfinished.json"
"""What a takedown still has to put in its place."""

HASHED = (CARD, DATASHEET, CROISSANT, REMOVED, DECISIONS, REDACTIONS, CHANGES, TAKEN_DOWN)
"""Paths of files of a release with a hash in `own_sha256` of `release.json`."""

UNHASHED = (RELEASE, SHA256SUMS, SIGNATURE, SOURCE)
"""The others: `SHA256SUMS` has the hash of the first, and the signature is of it. A hash of the last would let anybody
test guesses of the path."""

OWN_NAMES = frozenset(
    path.partition("/")[0]
    for path in (*HASHED, *UNHASHED, UNFINISHED, DONE, RELEASE_LEASE, TAKEDOWN_STAGED, TAKEDOWN_JOURNAL)
)
"""Names that no shard or file of a release may have, at the top of it."""


def own_names_among(shards: Iterable[str]) -> list[str]:
    """Return the names of a release's own files that shards of these names would take, sorted."""
    return sorted({shard.partition("/")[0] for shard in shards} & OWN_NAMES)


class CoverStep(NamedTuple):
    """One attempt to cover what a rule names."""

    name: str
    """boxes, wider or image."""

    num_areas: int
    share_covered: float
    """Share of the picture, 0–1."""

    left: tuple[str, ...] = ()
    """What a detector still found, or could not judge."""

    is_examined: bool = True
    """Whether a detector examined the picture after this step."""


@dataclass(frozen=True)
class Rewritten:
    """A picture that is released in another form than it was scanned in."""

    content: bytes
    steps: tuple[CoverStep, ...] = ()
    """How it was covered; empty if its pixels are unchanged."""

    pdq: tuple[str, ...] = ()
    """PDQ hashes of a covered picture as it was scanned."""

    colours: str | None = None
    """As in `ingest.images.rewriting.Remade`."""


@dataclass(frozen=True)
class NotReleased(Fault):
    """Why a picture is not released after all."""

    steps: tuple[CoverStep, ...] = ()
    """How it was covered, in vain."""


Rewrite = Callable[[int, bytes], Rewritten | NotReleased]
"""Takes the index of a sample and its picture as it was scanned."""


class ReleasedMember(NamedTuple):
    """A text or JSON file as it is released with a picture."""

    content: bytes
    lost_origin: bool
    """Whether it led to the scanned file of a picture that was written again."""

    is_masked: bool


@dataclass(frozen=True)
class Kept:
    """The samples of a shard that are released."""

    sha256: dict[int, str]
    """Index -> hash of the encoded image as it was scanned."""

    num_samples: int | None
    """Samples that the shard had when it was scanned; None if only some of them were scanned."""

    members: Members = "listed"
    """Which files or columns are released with the images."""

    category: str | None = None

    image_names: tuple[str, ...] = ()
    """Columns of a table that were scanned; empty for all that hold images."""

    rewrite: Rewrite | None = None
    """Writes each picture again; None releases it byte for byte."""

    reserved: frozenset[str] = frozenset()
    """Names that no file may have at the top of the release, since it has such files of its own."""

    mask: Mask | None = None
    """Masks the texts that are released with the images; None releases them as they are."""

    origins: Origins = "removed"
    """Whether texts of pictures that `rewrite` changes lose what leads to the scanned file."""

    def check_number(self, shard: str, num_found: int) -> None:
        """Raise IncompleteError if the number of samples has changed."""
        too_few = num_found <= max(self.sha256, default=-1)
        if too_few or self.num_samples not in (None, num_found):
            expected = "more" if self.num_samples is None else str(self.num_samples)
            raise changed(shard, f"it has {num_found} samples, and had {expected}")

    def check_image(self, shard: str, index: int, key: str, sha256: str | None) -> None:
        """Raise IncompleteError if `sha256` of a kept sample's image (None if it has none) differs from the scan's."""
        if sha256 != self.sha256[index]:
            raise changed(shard, f"sample {printable(key)} holds another image")

    def released(self, index: int, encoded: bytes, record: "RewriteRecord") -> bytes | None:
        """Return the picture as it is released, and note in the record what was done to it. None if it is not
        released. encoded: the scanned picture, by `check_image`."""
        if self.rewrite is None:
            return encoded
        made = self.rewrite(index, encoded)
        if made.steps:
            record.steps[index] = made.steps
        if isinstance(made, NotReleased):
            record.refused[index] = (made.reason, made.message)
            return None
        if made.pdq:
            record.pdq[index] = made.pdq
        if made.colours:
            record.colours[index] = made.colours
        is_same = made.content == encoded  # much faster than a hash; a clean file is often written as it was
        record.rewritten[index] = self.sha256[index] if is_same else hashlib.sha256(made.content).hexdigest()
        return made.content

    def replaced_by(self, index: int, record: "RewriteRecord") -> str | None:
        """Return the hash of the released picture if its texts may not lead to the scanned one; None if they may."""
        sha256 = record.rewritten.get(index)  # None if it is not released, too
        return None if self.origins == "kept" or sha256 == self.sha256[index] else sha256

    def member(self, name: str, content: bytes, replaced_by: str | None) -> ReleasedMember | None:
        """Return a listed member as it is released; None if it cannot be. content: one that `holds_what_it_says`.
        replaced_by: as the method gives it; empty for several pictures."""
        edits = [
            None if replaced_by is None else partial(without_origins, released_sha256=replaced_by),
            None if self.mask is None else partial(masked_value, mask=self.mask),
        ]
        is_changed = [False, False]
        for number, edit in enumerate(edits):
            if edit is not None:
                edited = edited_member(name, content, edit)
                if edited is None:
                    return None
                content, is_changed[number] = edited
        return ReleasedMember(content, *is_changed)


@dataclass
class RewriteRecord:
    """What became of pictures that had to be written again."""

    rewritten: dict[int, str] = field(default_factory=dict)
    """Index -> sha256 of the released picture."""

    refused: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Index -> reason and message of the `NotReleased`."""

    steps: dict[int, tuple[CoverStep, ...]] = field(default_factory=dict)
    """Index -> how it was covered, also of those that are not released."""

    pdq: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Index -> `Rewritten.pdq`."""

    colours: dict[int, str] = field(default_factory=dict)
    """Index -> `Rewritten.colours`."""

    num_without_origin: int = 0
    """Pictures whose texts lost what led to the scanned file."""


@dataclass(frozen=True)
class Written:
    """What was written of a shard."""

    num_samples: int

    files: dict[str, str]
    """Name relative to the release -> sha256 of the file, in hex."""

    dropped: dict[int, str]
    """Index -> why this kept sample was not written after all."""

    left_out: dict[str, int]
    """Files and columns of the written samples that were not released: extension, or "column " and a name -> number."""

    pictures: RewriteRecord = field(default_factory=RewriteRecord)

    num_masked: int = 0
    """Files and cells in which `Kept.mask` has masked something."""

    def to_json(self) -> str:
        """Return JSON in ASCII only: undecodable file names survive as lone surrogate escapes."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Written":
        """Read what `to_json` wrote. ValueError if the text is damaged."""
        content = json.loads(text)
        try:
            pictures = RewriteRecord(
                {index: str(sha256) for index, sha256 in _items(content, "rewritten")},
                {index: (str(reason), str(message)) for index, (reason, message) in _items(content, "refused")},
                {index: tuple(map(_step, steps)) for index, steps in _items(content, "steps")},
                {index: tuple(map(str, texts)) for index, texts in _items(content, "pdq")},
                {index: str(colours) for index, colours in _items(content, "colours")},
                int(content["pictures"]["num_without_origin"]),
            )
            dropped = {int(index): str(why) for index, why in content["dropped"].items()}
            files, left_out = dict(content["files"]), dict(content["left_out"])
            return Written(int(content["num_samples"]), files, dropped, left_out, pictures, int(content["num_masked"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("not a record of what was written") from error


def _step(fields: Sequence[Any]) -> CoverStep:
    name, num_areas, share_covered, still_shown, is_examined = fields
    return CoverStep(str(name), int(num_areas), float(share_covered), tuple(map(str, still_shown)), bool(is_examined))


def _items(content: dict[str, Any], name: str) -> list[tuple[int, Any]]:
    """Return a dict of the record of pictures."""
    return [(int(index), value) for index, value in content["pictures"][name].items()]


def changed(shard: str, what: str) -> IncompleteError:
    """Return the error for a shard that has changed since the scan."""
    return IncompleteError(
        f"{printable(shard)} has changed since it was scanned: {what}; nothing is released; "
        "restore it, or scan the source into a new run"
    )
