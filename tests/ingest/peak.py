"""python -m tests.ingest.peak SOURCE [OUT]: reads all samples and says how much memory that took.

With OUT, a folder, the one Parquet file of the source is released too, with all its samples.
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

from ingest.formats import open_source, parquet
from ingest.formats.released import Kept
from ingest.storage.place import place
from tests.ingest.made import slices_of


def peak_mb() -> int:
    """The most that this process ever had in memory (Linux only)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def main(url: str) -> None:
    source = open_source(url, None, None)
    before = peak_mb()
    read = (sample for slice_ in slices_of(source) for sample in source.read(slice_))
    reasons = Counter(sample.fault.reason if sample.fault else f"{len(sample.encoded)} bytes" for sample in read)
    print(json.dumps({"reasons": reasons, "mb": peak_mb() - before}))


def write(file: Path, out: str) -> None:
    source = open_source(str(file), None, None)
    before = peak_mb()
    read = (sample for slice_ in slices_of(source) for sample in source.read(slice_))
    hashes = {sample.index: hashlib.sha256(sample.encoded).hexdigest() for sample in read if not sample.fault}
    written = parquet.write(place(str(file.parent)), file.name, Kept(hashes, None), place(out))
    print(json.dumps({"num_samples": written.num_samples, "dropped": written.dropped, "mb": peak_mb() - before}))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write(Path(sys.argv[1]), sys.argv[2])
    else:
        main(sys.argv[1])
