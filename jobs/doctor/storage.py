"""Whether the source can be read and the run can be written."""

import os
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ingest.errors import SourceError, StorageError
from ingest.fault import Fault
from ingest.formats import Source, open_source
from ingest.images.decode import decode
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from ingest.storage.place import PART, Place, place
from ingest.storage.retries import RETRY_VARIABLE
from scoring.runs.begin import refuse_other_files
from scoring.runs.layout import RUN_RECORD
from scoring.runs.record import open_run

RETRY_S = "5"
"""How long to wait for a store that does not answer, unless the user set another time."""


def check_source(url: str) -> str:
    corpus = open_source(url, None, None)
    sample = first_sample(corpus)
    if sample is None:
        raise SourceError(f"{url} holds no sample in any of its {len(corpus.shards)} shards")
    image = sample.fault or decode(sample.encoded, ImageLimits())
    first = f"is quarantined ({image.reason})" if isinstance(image, Fault) else "can be read"
    return f"{corpus.format}, {len(corpus.shards)} shards; the first sample {first}"


def first_sample(source: Source) -> Sample | None:
    """Read from the first shard that has one; None where none has. SourceError, StorageError where it cannot be."""
    slices = (slice_ for shard in source.shards for slice_ in source.slices(shard) if slice_.locators)
    return next((sample for slice_ in slices for sample in source.read(slice_)), None)


def check_run(url: str) -> str:
    """Writes, reads and removes a small file where a scan would write too."""
    root = place(url)
    is_run = root.at(RUN_RECORD).exists()
    if is_run:
        open_run(url)
    else:
        refuse_other_files(root, url)
    probe = root.at(f"doctor-{uuid.uuid4().hex}{PART}")
    with new_folders_removed(root):
        try:
            probe.write(b"privsieve doctor")
            if probe.read() != b"privsieve doctor":
                raise StorageError(f"{url} returns other bytes than were written; choose another store for --run")
        finally:
            probe.remove()
    return "an existing run, can be written" if is_run else "new, can be written"


@contextmanager
def short_retries() -> Iterator[None]:
    """Within the block a store that does not answer is given up after `RETRY_S`, unless the user set a time."""
    if RETRY_VARIABLE in os.environ:
        yield
        return
    os.environ[RETRY_VARIABLE] = RETRY_S
    try:
        yield
    finally:
        del os.environ[RETRY_VARIABLE]


@contextmanager
def new_folders_removed(root: Place) -> Iterator[None]:
    """Removes the local folders that the block created; object stores have none."""
    missing = []
    folder = root.path
    while root.is_local and not os.path.exists(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    try:
        yield
    finally:
        for created in missing:
            with suppress(OSError):
                os.rmdir(created)
