"""The files that cleaning and covering make, None if they make none."""

from collections.abc import Sequence

from ingest.images import rewriting
from ingest.images.rewriting import Area, CoverMethod


def cleaned(content: bytes, num_frames: int) -> bytes | None:
    made = rewriting.cleaned(content, num_frames)
    return None if made is None else made.content


def covered(content: bytes, areas: Sequence[Area], method: CoverMethod) -> bytes | None:
    made = rewriting.covered(content, areas, method)
    return None if made is None else made.content
