"""Pictures that nobody may see, by an operator's list of hashes.

PDQ finds a picture again that was encoded anew, made smaller or brighter, mirrored or turned, but not one that was
cropped. Source: pdqhash (PyPI); 31 of 256 bits is the distance that PDQ's authors recommend.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, PrivsieveError
from ingest.images.decode import Pixels
from ingest.storage.place import place, reason_of

MAX_DISTANCE = 31
"""Bits in which a picture may differ from a PDQ hash of the list."""

MAX_BYTES = 512 * 2**20

_LINE = re.compile(r"(?:(sha256|pdq)[ :,]\s*)?([0-9a-f]{64})")


@dataclass(frozen=True)
class HashList:
    """The hashes of a list."""

    sha256: frozenset[str]
    """In hex."""

    pdq: npt.NDArray[np.uint64]
    """Shape (hashes, 4)."""

    def looks_alike(self, pixels: Pixels) -> bool:
        """Whether the picture is, by PDQ, one of the list, mirrored or turned by right angles too."""
        if not len(self.pdq):
            return False
        for seen in (pixels, np.ascontiguousarray(pixels[:, ::-1])):  # what is mirrored is only roughly derived
            for bits in _pdqhash().compute_dihedral(seen)[0]:
                words = np.packbits(np.asarray(bits, np.uint8)).view(np.uint64)
                if (np.bitwise_count(self.pdq ^ words).sum(axis=1, dtype=np.int64) <= MAX_DISTANCE).any():
                    return True
        return False


NOTHING = HashList(frozenset(), np.zeros((0, 4), np.uint64))


def read_hash_list(url: str) -> HashList:
    """One hash a line: 64 hexadecimal digits, after `sha256` or `pdq` if it is of one kind; else it counts as both.

    Blank lines and those that begin with # are skipped. LabelsError names the first line that is no hash; no hash of
    the list is repeated.
    """
    file = place(url)
    try:
        size = file.size()
        if size > MAX_BYTES:
            raise LabelsError(f"{url}: has {size:,} bytes; a hash list may have {MAX_BYTES:,}")
        text = file.content().decode("utf-8-sig")
    except OSError as error:
        raise LabelsError(f"{url}: cannot be read: {reason_of(error)}") from None
    except UnicodeDecodeError:
        raise LabelsError(f"{url}: is no text in UTF-8") from None
    found: dict[str, set[str]] = {"sha256": set(), "pdq": set()}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().lower()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise LabelsError(
                f"{url}, line {number}: is no hash; write 64 hexadecimal digits, after sha256 or pdq if it is only that"
            )
        for kind in found if match[1] is None else (match[1],):
            found[kind].add(match[2])
    if not any(found.values()):
        raise LabelsError(f"{url}: holds no hash; leave --hash-list out if there is none")
    if found["pdq"]:
        _pdqhash()
    digits = bytes.fromhex("".join(sorted(found["pdq"])))
    return HashList(frozenset(found["sha256"]), np.frombuffer(digits, np.uint64).reshape(-1, 4))


def _pdqhash() -> Any:
    try:
        import pdqhash
    except ModuleNotFoundError:
        raise PrivsieveError("PDQ hashes need the package pdqhash: pip install 'privsieve[review]'") from None
    return pdqhash
