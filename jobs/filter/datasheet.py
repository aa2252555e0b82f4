"""`datasheet.md` of a release: the questions of "Datasheets for Datasets" (Gebru et al., 2021), answered by facts.

What only the people in charge know is in square brackets.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ingest.errors import number_of
from ingest.sample import printable
from scoring.taxonomy import KEYS

MAX_CATEGORIES = 50
"""Limit on the categories of the table."""


def datasheet(release: Mapping[str, Any], name: str, num_released: int) -> Iterator[str]:
    """Yield the lines. release: what `release.json` says."""
    engine, actions = release["engine"], release["actions"]
    missing = [key for key in KEYS if key not in engine["assessed"]]
    yield from [f"# Datasheet of {name}", ""]
    yield "Made by privsieve from `release.json`. What only you know is in [square brackets]: answer it in a copy,"
    yield from ["since a changed file is a fault for `privsieve verify`.", "", "## Motivation", ""]
    yield from ["[Why the corpus was made, by whom, and who paid for it.]", "", "## Composition", ""]
    holds = number_of(num_released, "picture")
    if (urls := release.get("urls")) is not None:
        holds = f"{number_of(urls['num_released'], 'row')} of a table of URLs, without pictures"
    yield f"- What it holds: {holds} ({release['scope']}). Layout of the source: {release['format']}."
    yield f"- Subsets: {actions['keep']:,} kept, {actions['flag']:,} flagged, {actions.get('redact', 0):,} covered."
    yield f"- Left out: {actions['drop']:,} of {release['num_images']:,} images; `decisions.parquet` says why of each."
    if num := release["damaged_shards"]["num_shards"]:
        yield f"- Errors of the source: {number_of(num, 'damaged shard')}; an unknown number of images was not seen."
    yield f"- Confidential or sensitive content: judged by `{engine['name']}` (`{engine['protocol']}`)."
    if missing:
        yield f"- What nothing looked for, so it may be there: {', '.join(f'`{key}`' for key in missing)}."
    yield "- [People it shows: groups, ages, places; whether they can be identified by other means.]"
    yield from _categories(release.get("shift") or {})
    yield from ["", "## Collection", ""]
    yield "[How, when and by whom the pictures were collected; whether people knew, agreed, and can object; ethics"
    yield "board, consent, data protection impact assessment: say so if there was none.]"
    yield from ["", "## Preprocessing", ""]
    yield f"- Policy `{printable(release['policy'])}`, sha256 `{release['policy_sha256']}`."
    yield f"- Version of privsieve: {release['privsieve']}."
    files = "cleaned of all that decoding does not need" if release["files"] == "clean" else "as they were"
    yield f"- Files of pictures: {files}. Texts next to them: {release['members']}, {release.get('texts', 'as-is')}."
    if release["guarantee"]:
        yield f"- Guarantee: {release['guarantee']['promise']}."
    taken = sum(step["num_pictures"] for step in release.get("takedowns") or ())
    yield f"- Taken down since: {number_of(taken, 'picture')}."
    yield from ["", "## Uses", "", "[What it has been used for, what it should not be used for.]", ""]
    yield from ["## Distribution", "", "[Licence, address, by request or in the open, with which duties.]", ""]
    yield from ["## Maintenance", ""]
    yield "- `privsieve takedown` takes pictures out, and `removed.parquet` names them; holders of older copies remove"
    yield "  them by `privsieve apply-removals`."
    yield from ["- [Who answers requests to remove a picture, and how.]", ""]


def _categories(shift: Mapping[str, Any]) -> Iterator[str]:
    counts = shift.get("categories") or []
    if counts:
        yield from ["", "| category | scanned | released |", "|---|---|---|"]
        for name, before, after in counts[:MAX_CATEGORIES]:
            yield f"| {printable(name)} | {before:,} | {after:,} |"
        if len(counts) > MAX_CATEGORIES:
            yield f"| {len(counts) - MAX_CATEGORIES:,} more | | |"
