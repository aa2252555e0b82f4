"""`--digest-endpoint`: a language model puts the counts of evidence into words, one group at a time.

It gets the names of the kinds of evidence and their counts, nothing else: no picture, no key, no name of a group. What
it writes is shown as its own words. The Places365 audit of Samson et al., "Privacy-Aware Visual Language Models", does
this with a model's stored reasons.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.errors import StorageError
from ingest.sample import printable
from reports.report.page import Digest
from reports.run.figures import EvidenceCount
from scoring.endpoints.endpoint import Endpoint, NoAnswerError, RefusedError, checked_url

OPTION = "--digest-endpoint"
MAX_CHARACTERS = 600
"""Limit of the words about a group that the page shows."""

MAX_TOKENS = 150

_SYSTEM = (
    "You summarise statistics for a privacy officer. Write two plain sentences about why images of one category were "
    "found private. Use only the kinds of evidence and the counts that you are given. Name no person and no place."
)


def digest_of(evidence: Sequence[EvidenceCount], endpoint: str, model: str, titles: Mapping[str, str]) -> Digest | None:
    """Ask about each group; None if there is no evidence. EngineError or StorageError if the endpoint does not answer.

    titles: name of a kind -> words for it.
    """
    groups: dict[str, list[EvidenceCount]] = {}
    for item in evidence:
        groups.setdefault(item.group, []).append(item)
    if not groups:
        return None
    server = Endpoint(checked_url(endpoint, OPTION), model, num_connections=1, option=OPTION)
    answers = tuple((group, _asked(kinds, server, model, titles)) for group, kinds in groups.items())
    return Digest(model, answers)


def _asked(kinds: Sequence[EvidenceCount], server: Endpoint, model: str, titles: Mapping[str, str]) -> str:
    lines = [
        f"{titles.get(kind.kind, kind.kind)}: {kind.num_images} of {kind.num_private} private images" for kind in kinds
    ]
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": "\n".join(lines)}]
    body = {"model": model, "temperature": 0, "max_tokens": MAX_TOKENS, "messages": messages}
    try:
        text = _text_of(server.chat(body))
    except (NoAnswerError, RefusedError) as error:
        raise StorageError(f"{OPTION}: {server.url}: {error}") from None
    return printable(" ".join(text.split()))[:MAX_CHARACTERS]


def _text_of(answer: Any) -> str:
    try:
        text = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        text = None
    if not isinstance(text, str) or not text.strip():
        raise StorageError(f"{OPTION}: what the server sent is no chat completion")
    return text
