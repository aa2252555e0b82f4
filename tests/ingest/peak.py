"""python -m tests.ingest.peak SOURCE: reads all samples and says how much memory that took."""

import json
import sys
from collections import Counter

from ingest.formats import open_source
from tests.ingest.made import pieces_of


def peak_mb() -> int:
    """The most that this process ever had in memory (Linux only)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def main(url: str) -> None:
    source = open_source(url, None, None)
    before = peak_mb()
    read = (sample for piece in pieces_of(source) for sample in source.read(piece))
    reasons = Counter(sample.fault[0] if sample.fault else f"{len(sample.encoded)} bytes" for sample in read)
    print(json.dumps({"reasons": reasons, "mb": peak_mb() - before}))


if __name__ == "__main__":
    main(sys.argv[1])
