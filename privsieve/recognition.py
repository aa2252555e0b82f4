"""Whether changed pictures still show what they did. `privsieve` offers this function."""

from collections.abc import Sequence
from typing import Literal

from jobs.console.requests import asked
from jobs.similarity.request import CompareRequest
from jobs.similarity.run import run_compare
from privsieve.asking import Url, takes
from reports.similarity.results import Similarity


@takes(CompareRequest)
def similarity(
    originals: Url,
    changed: Sequence[Url],
    *,
    sample: int | None = None,
    seed: int = 0,
    part: Literal["areas", "whole"] = "areas",
    encoder: Url | None = None,
    hash_list: Url | None = None,
    html: Url | None = None,
    out: Url | None = None,
) -> Similarity:
    """Compare changed pictures with their originals and return everything that `privsieve similarity compare` says.

    SourceError, StorageError, EngineError, LabelsError.
    """
    return run_compare(asked(CompareRequest, locals()))
