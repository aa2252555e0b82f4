"""fsspec's file system of web servers, with a query that is sent with each request."""

from typing import Any
from urllib.parse import quote

import yarl
from fsspec.implementations.http import HTTPFileSystem


class WebFiles(HTTPFileSystem):  # type: ignore[misc]
    """The file system. query: as it is sent, without "?"."""

    def __init__(self, *args: Any, query: str, **options: Any):
        super().__init__(*args, **options)
        self._query = query

    def encode_url(self, url: str) -> yarl.URL:
        """Append the query. Its percent-encoding is kept, since a signature covers these very characters."""
        query = quote(self._query, safe="%/:?@!$&'()*+,;=[]~")
        return yarl.URL(f"{super().encode_url(url)}?{query}", encoded=True)
