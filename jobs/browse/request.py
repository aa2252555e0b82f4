"""What `browse` is asked for."""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from jobs.runtime.requests import STRICT, Name


@checked_dataclass(frozen=True, config=STRICT)
class BrowseRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    where: Name | None = None
    """SQL condition over the view `images`: only such rows are taken."""

    policy: Name | None = None
    """A policy file or the name of a shipped one, whose decisions the page shows at first."""

    hash_list_url: Name | None = None
    """File of hashes of pictures that nobody may see."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0: a free one."""
