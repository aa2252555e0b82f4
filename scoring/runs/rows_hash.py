"""One hash of all rows of a run, made of the footers of its result files alone.

It changes if a result is added, removed, or replaced by one with other rows; it stays the same if the run is
compacted. The order of the files does not matter: the marks of the files are added up, so that millions need no memory.
"""

import hashlib

_MODULUS = 2**256


def mark_of(name: str, num_rows: int, content: str) -> int:
    """Return the part of a result file in the sum. content: a text that changes with the rows, such as the footer's."""
    return int.from_bytes(hashlib.sha256(f"{name}\n{num_rows}\n{content}".encode()).digest(), "big")


def hash_of_marks(total: int) -> str:
    """Return the hash of a run whose marks have this sum."""
    return f"{total % _MODULUS:064x}"


def hash_of_text(text: str) -> str:
    """Return the hash of a run compacted by an older version, whose manifest says less about its parts."""
    return hashlib.sha256(text.encode()).hexdigest()
