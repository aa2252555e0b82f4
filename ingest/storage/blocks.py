"""A hash of a few blocks of a shard: it shows that the content was replaced even if size and times are the same.

Copying and unpacking tools put the time of a file back (`cp -p`, `rsync -t`, `tar -x`), so size and time prove little.
A hash of everything would cost a second reading of the corpus. A few blocks differ almost surely if all pictures were
replaced; if only a share `p` of the bytes differs, at least one block differs with a probability of about
1 - (1 - p) ** (NUM_BLOCKS - 2).
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

NUM_BLOCKS = 16

BLOCK_BYTES = 512

ReadBlock = Callable[[int, int, int], bytes]
"""Takes the number of the file, and start and end in bytes; returns the bytes between them."""


def blocks_sha256(sizes: Sequence[int], read: ReadBlock) -> str:
    """Hash the first, the last and some drawn blocks of files, which are taken as if they followed each other.

    sizes: of the files, in bytes. The draw depends on the total size alone, so it is the same each time. A block ends
    at the end of its file. Raises what `read` raises.
    """
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    digest = hashlib.sha256(str(total).encode())
    for start in _starts(total):
        number = bisect_right(ends, start)
        offset = start - (ends[number] - sizes[number])
        digest.update(f" {start} ".encode())
        digest.update(read(number, offset, min(offset + BLOCK_BYTES, sizes[number])))
    return digest.hexdigest()


def _starts(total: int) -> list[int]:
    """Return where the blocks begin, sorted. Without `random`, whose draws may differ between versions of Python."""
    if total <= NUM_BLOCKS * BLOCK_BYTES:
        return list(range(0, total, BLOCK_BYTES))
    last = total - BLOCK_BYTES
    hashes = (hashlib.sha256(f"{total} {number}".encode()).digest() for number in range(NUM_BLOCKS - 2))
    return sorted({0, last, *(int.from_bytes(digest) % last for digest in hashes)})
