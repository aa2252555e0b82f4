"""`--digest-endpoint`: a language model puts the counts of evidence into words, one group at a time.

It gets the names of the kinds of evidence and their counts, nothing else: no picture, no key, no name of a group. What
it writes is shown as its own words. The Places365 audit of Samson et al., "Privacy-Aware Visual Language Models", does
this with a model's stored reasons.
"""

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ingest.errors import StorageError
from ingest.sample import printable
from reports.report.page import Digest
from reports.run.figures import Evidence

TIMEOUT_S = 120
MAX_ANSWER_BYTES = 2**20
MAX_CHARACTERS = 600
"""Limit of the words about a group that the page shows."""

MAX_TOKENS = 150
KEY_VARIABLE = "OPENAI_API_KEY"

_NO_BASE_URL = "--digest-endpoint wants the base URL of a server, such as http://127.0.0.1:8000/v1"

_SYSTEM = (
    "You summarise statistics for a privacy officer. Write two plain sentences about why images of one category were "
    "found private. Use only the kinds of evidence and the counts that you are given. Name no person and no place."
)


def digest_of(evidence: Sequence[Evidence], endpoint: str, model: str, titles: Mapping[str, str]) -> Digest | None:
    """None where there is no evidence. StorageError in one line if the endpoint does not answer.

    titles: name of a kind -> words for it.
    """
    groups: dict[str, list[Evidence]] = {}
    for item in evidence:
        groups.setdefault(item.group, []).append(item)
    if not groups:
        return None
    answers = tuple((group, _asked(kinds, endpoint, model, titles)) for group, kinds in groups.items())
    return Digest(model, answers)


def _asked(kinds: Sequence[Evidence], endpoint: str, model: str, titles: Mapping[str, str]) -> str:
    lines = [
        f"{titles.get(kind.kind, kind.kind)}: {kind.num_images} of {kind.num_private} private images" for kind in kinds
    ]
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": "\n".join(lines)}]
    body = {"model": model, "temperature": 0, "max_tokens": MAX_TOKENS, "messages": messages}
    text = _text_of(_sent(f"{endpoint.rstrip('/')}/chat/completions", json.dumps(body).encode()))
    return printable(" ".join(text.split()))[:MAX_CHARACTERS]


def _sent(url: str, body: bytes) -> Any:
    where = _host(url)
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY_VARIABLE, "").strip():
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as response:
            content = response.read(MAX_ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise StorageError(f"--digest-endpoint: {where} answered with HTTP {error.code}") from None
    except http.client.InvalidURL:
        raise StorageError(_NO_BASE_URL) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = type(getattr(error, "reason", error)).__name__
        raise StorageError(f"--digest-endpoint: {where} did not answer ({reason})") from None
    try:
        return json.loads(content[:MAX_ANSWER_BYTES])
    except (ValueError, RecursionError):
        raise StorageError(f"--digest-endpoint: what {where} sent is no chat completion") from None


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise StorageError(_NO_BASE_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StorageError(_NO_BASE_URL)
    return parts.hostname


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the host that the user named and to no other."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _text_of(answer: Any) -> str:
    try:
        text = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        text = None
    if not isinstance(text, str) or not text.strip():
        raise StorageError("--digest-endpoint: what the server sent is no chat completion")
    return text
