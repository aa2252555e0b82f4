"""What `browse` is asked for."""

from typing import Annotated

from pydantic import Field

from jobs.console.requests import HashListUrl, Name, Option, RunUrl, Url, checked_request
from scoring.policies.policy_file import SHIPPED


@checked_request
class BrowseRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    where: Annotated[Name | None, Option(metavar="SQL")] = None
    """Only rows that fit this condition, such as "level IN (1, 2)"."""

    policy: Annotated[Url | None, Option(offers=SHIPPED, fill=", ".join(SHIPPED))] = None
    """Begin with the decisions of this policy: a YAML file, or one that is shipped ({})."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is never shown, named or exported, and only
    counted."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of this machine. [default: a free one]"""
