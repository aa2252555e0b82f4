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
    if release["made_up"]:
        yield from [f"**{release['made_up']}.**", ""]
    yield "Made by privsieve from `release.json`. What only you know is in [square brackets]: answer it in a copy,"
    yield from ["since a changed file is a fault for `privsieve verify`.", "", "## Motivation", ""]
    yield from ["[Why the corpus was made, by whom, and who paid for it.]", "", "## Composition", ""]
    holds = number_of(num_released, "picture")
    if (urls := release.get("urls")) is not None:
        holds = f"{number_of(urls['num_released'], 'row')} of a table of URLs, without pictures"
    yield f"- What it holds: {holds} ({release['scope']}). Layout of the source: {release['format']}."
    if urls is not None:
        yield from _subsets_of_list(urls)
    else:
        yield f"- Subsets: {actions['keep']:,} kept, {actions['flag']:,} flagged, {actions.get('redact', 0):,} covered."
        left_out = f"{actions['drop']:,} of {release['num_images']:,} images"
        yield f"- Left out: {left_out}; `decisions.parquet` says why of each."
    if num := release["damaged_shards"]["num_shards"]:
        yield f"- Errors of the source: {number_of(num, 'damaged shard')}; an unknown number of images was not seen."
    yield f"- Confidential or sensitive content: judged by `{engine['name']}` (`{engine['protocol']}`)."
    if missing:
        yield f"- What nothing looked for, so it may be there: {', '.join(f'`{key}`' for key in missing)}."
    yield "- [People it shows: groups, ages, places; whether they can be identified by other means.]"
    taken = sum(step["num_pictures"] for step in release.get("takedowns") or ())
    yield from _categories(release.get("shift") or {}, "released, before takedowns" if taken else "released")
    yield from ["", "## Collection", ""]
    yield "[How, when and by whom the pictures were collected; whether people knew, agreed, and can object; ethics"
    yield "board, consent, data protection impact assessment: say so if there was none.]"
    yield from ["", "## Preprocessing", ""]
    yield f"- Policy `{printable(release['policy'])}`, sha256 `{release['policy_sha256']}`."
    yield f"- Version of privsieve: {release['privsieve']}."
    texts = release.get("texts", "as-is")
    if urls is not None:
        yield f"- Files of pictures: none. Texts in the table: {texts}."
    else:
        yield f"- Files of pictures: {_files(release)}. Texts next to them: {release['members']}, {texts}."
    if release["guarantee"]:
        yield f"- Guarantee: {release['guarantee']['promise']}."
    yield f"- Taken down since: {number_of(taken, 'picture')}."
    yield from ["", "## Uses", "", "[What it has been used for, what it should not be used for.]", ""]
    yield from ["## Distribution", "", "[Licence, address, by request or in the open, with which duties.]", ""]
    yield from ["## Maintenance", ""]
    yield "- `privsieve takedown` takes pictures out, and `removed.parquet` names them; holders of older copies remove"
    yield "  them by `privsieve apply-removals`."
    yield from ["- [Who answers requests to remove a picture, and how.]", ""]


def _subsets_of_list(urls: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a list of URLs holds and what it leaves out. urls: of `UrlCounts`."""
    actions = dict(urls["actions"])
    if not urls["flags_only"]:
        del actions["drop"]
    else:
        actions["drop"] -= urls["num_withheld"]
    num_held = urls["num_released"] + urls["num_taken_down"]
    num_unknown = num_held - sum(actions.values())
    since = " before takedowns" if urls["num_taken_down"] else ""
    counts = ", ".join(f"{count:,} {action}" for action, count in actions.items())
    yield f"- Subsets{since}: {counts}, {num_unknown:,} without a judged picture."
    left_out = f"{urls['num_listed'] - num_held:,} of {number_of(urls['num_listed'], 'row')}"
    yield f"- Left out{since}: {left_out} of the table; `release.json` counts why."


def _files(release: Mapping[str, Any]) -> str:
    if release["files"] == "clean":
        return "cleaned of all that decoding does not need"
    return "as they were, but covered ones are written anew" if release["actions"].get("redact") else "as they were"


def _categories(shift: Mapping[str, Any], released: str) -> Iterator[str]:
    counts = shift.get("categories") or []
    if counts:
        yield from ["", f"| category | scanned | {released} |", "|---|---|---|"]
        for name, before, after in counts[:MAX_CATEGORIES]:
            yield f"| {printable(name).replace('|', chr(92) + '|')} | {before:,} | {after:,} |"
        if len(counts) > MAX_CATEGORIES:
            yield f"| {len(counts) - MAX_CATEGORIES:,} more | | |"
