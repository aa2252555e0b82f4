"""What `similarity` is asked for."""

from typing import Annotated, Literal

from pydantic import Field

from ingest.errors import PrivsieveError
from jobs.console.requests import HashListUrl, LocalFile, Option, Seed, Url, Urls, checked_request


@checked_request
class CompareRequest:
    originals: Annotated[Url, Option(argument="ORIGINALS")]
    """The pictures before: a folder, tar, Parquet file, glob or URL, as for scan."""

    changed: Annotated[Urls, Option(argument="CHANGED")]
    """The same pictures after, under the same keys: releases, or any other corpora. Each is a set of its own."""

    sample: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Compare only this many originals, drawn at random."""

    seed: Seed = 0
    """Seed of the draw."""

    part: Literal["areas", "whole"] = "areas"
    """Compare the areas in which two pictures differ, or the whole pictures."""

    encoder: Annotated[LocalFile | None, Option(metavar="FILE")] = None
    """A trained head over the frozen features, for SemSim (safetensors)."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); pairs with a picture on it are counted and not named."""

    out: Url | None = None
    """Write a row of each pair to this Parquet file."""

    def __post_init__(self) -> None:
        if not self.changed:
            raise PrivsieveError("there is nothing to compare with: give CHANGED")
        if self.out is not None and not self.out.endswith(".parquet"):
            raise PrivsieveError(f"--out {self.out}: the rows are written as Parquet; give a name that ends so")
