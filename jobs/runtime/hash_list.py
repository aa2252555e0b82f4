"""An operator's list of hashes of pictures that no command may show, name or copy.

Commands take the list by the option of `jobs.console.requests.HashListUrl`. A command that holds the bytes of a picture
compares them by `HashList.clearances`; one that holds rows of a run, by `jobs.runtime.pictures`.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ingest.errors import LabelsError
from ingest.images.pdq import Hashes, hashes_of, near, turned
from ingest.storage.given_files import given_content
from ingest.storage.place import place

MAX_BYTES = 512 * 2**20

_LINE = re.compile(r"(?:(sha256|pdq)[ :,]\s*)?([0-9a-f]{64})")

PdqOfFile = Sequence[str | None]
"""The hashes of all that a file shows, None for what has none, as in `ingest.images.decode.DecodedImage.pdq`."""

Clearance = Literal["clear", "listed", "not_compared", "gone"]
"""What a hash list says of a picture. not_compared: all of it, or a part such as frames that the scan left out, cannot
be compared with the list. gone: the source no longer has it as it was scanned, so it cannot be compared either."""


def is_complete(pdq: PdqOfFile | None) -> bool:
    """Return whether all that a file shows has a hash. pdq: None if it could not be decoded."""
    return pdq is not None and None not in pdq


@dataclass(frozen=True)
class HashList:
    """The hashes of a list."""

    sha256: frozenset[str]
    """In hex."""

    pdq: Hashes
    """Shape (hashes, 4)."""

    @property
    def needs_pdq(self) -> bool:
        """Return whether the list has PDQ hashes, for which hashes of file contents are not enough."""
        return len(self.pdq) > 0

    @cached_property
    def digest(self) -> str:
        """Return the hash of the hashes, in hex: the same for a list in another order or with other comments."""
        return hashlib.sha256("\n".join([*sorted(self.sha256), ""]).encode() + self.pdq.tobytes()).hexdigest()

    def clearances(self, sha256: Sequence[str | None], pdq: Sequence[PdqOfFile | None]) -> list[Clearance]:
        """Return the clearance of each file. ValueError if a text is no PDQ hash. sha256: of its bytes, None if there
        are none. pdq: None if it could not be decoded."""
        result: list[Clearance] = ["listed" if hash_ in self.sha256 else "clear" for hash_ in sha256]
        if not self.needs_pdq:
            return result
        files = [number for number, hashes in enumerate(pdq) for hash_ in hashes or () if hash_ is not None]
        known = (hash_ for hashes in pdq for hash_ in hashes or () if hash_ is not None)
        listed = {files[number] for number in np.flatnonzero(near(self._ways, hashes_of(known)))}
        for number, hashes in enumerate(pdq):
            if number in listed:
                result[number] = "listed"
            elif result[number] == "clear" and not is_complete(hashes):
                result[number] = "not_compared"
        return result

    @cached_property
    def _ways(self) -> Hashes:
        return turned(self.pdq).reshape(-1, 4)


NOTHING = HashList(frozenset(), np.zeros((0, 4), np.uint64))


def hash_list_of(url: str | None) -> HashList:
    """Read one hash a line: 64 hexadecimal digits, after `sha256` or `pdq` if it is of one kind, else as both. Return
    `NOTHING` without a file.

    Blank lines and those that begin with # are skipped. LabelsError names the first line that is no hash; no hash of
    the list is repeated. StorageError if the file cannot be read.
    """
    if url is None:
        return NOTHING
    try:
        text = given_content(place(url), f"--hash-list {url}", MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelsError(f"{url}: is not text in UTF-8") from None
    by_kind: dict[str, set[str]] = {"sha256": set(), "pdq": set()}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().lower()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise LabelsError(
                f"{url}, line {number}: is no hash; write 64 hexadecimal digits, after sha256 or pdq if it is only that"
            )
        for kind in by_kind if match[1] is None else (match[1],):
            by_kind[kind].add(match[2])
    if not any(by_kind.values()):
        raise LabelsError(f"{url}: holds no hash; leave --hash-list out if there is none")
    return HashList(frozenset(by_kind["sha256"]), hashes_of(sorted(by_kind["pdq"])))
