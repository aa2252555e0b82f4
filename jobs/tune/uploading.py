"""Uploads an adapter that was tuned on this machine, since training writes many files more than once."""

import hashlib
import shutil
from pathlib import Path

from ingest.errors import LabelsError, StorageError
from ingest.storage.place import Place
from ingest.storage.web import named
from jobs.runtime.progress import Meter
from scoring.engines.vlm.adapter import BEGUN, CARD
from scoring.runs.layout import RUN_LEASE
from scoring.weights.cache import WEIGHTS_SUFFIX, cache_root, in_bytes

PIECE_BYTES = 8 * 2**20


def refuse_read_only(url: str) -> None:
    """Raise LabelsError for a web server, which takes no files."""
    if url.startswith(("http://", "https://")):
        raise LabelsError(f"--out {named(url)}: web servers take no files; give a folder, or a URL of an object store")


def staging_folder(url: str) -> Path:
    """Return the folder of this machine in which the adapter for a URL is tuned. The same URL gets the same folder, so
    that a killed tuning is continued, or refused in one line if it was of another request."""
    digest = hashlib.sha256(url.encode()).hexdigest()
    return cache_root().parent / "tuning" / digest[:24] / "adapter"


def upload(folder: Path, out: Place, begun: bytes, meter: Meter) -> None:
    """Upload all files of the folder. StorageError if a file does not arrive whole. The mark of a begun tuning comes
    first and is removed last, and the card is the last file. So a part of an adapter can be recognised as one."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != RUN_LEASE)
    files.sort(key=lambda file: file == folder / CARD)
    num_bytes, num_done = sum(file.stat().st_size for file in files), 0
    meter.phase(f"{in_bytes(num_bytes)} to {out.path}")
    out.at(BEGUN).write(begun)
    for file in files:
        target = out.at(*file.relative_to(folder).parts)
        if file.suffix == WEIGHTS_SUFFIX or file.stat().st_size > PIECE_BYTES:
            with target.create() as new, file.open("rb") as stream:
                shutil.copyfileobj(stream, new, PIECE_BYTES)
        else:  # in one request, which is tried again
            target.write(file.read_bytes())
        if target.size() != file.stat().st_size:
            raise StorageError(f"{target.path} arrived with another size; run the same command again")
        num_done += file.stat().st_size
        meter.phase(f"{in_bytes(num_done)} of {in_bytes(num_bytes)} to {out.path}", is_logged=False)
    out.at(BEGUN).remove()
