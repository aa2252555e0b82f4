"""The two kinds of release, of pictures or of a list of URLs, and which of them a release is."""

from jobs.releases.record import UrlCounts
from jobs.releases.shards import Shards
from jobs.releases.url_list import UrlList

ReleaseKind = Shards | UrlList
"""Both have the same methods, so that what is common to all releases reads without branches."""


def kind_of(urls: UrlCounts | None) -> ReleaseKind:
    """Return the kind of a release. urls: what its record or its plan counts of a list."""
    return Shards() if urls is None else UrlList(urls)
