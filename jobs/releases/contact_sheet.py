"""`release verify --contact-sheet`: covered pictures as they were scanned and as they are released, by rule.

The second look says that a detector finds nothing more. Whether a person does, only people can say.
Names and reasons are hostile: Jinja escapes them, and the page runs no script.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest import __version__
from ingest.errors import PrivsieveError, SourceError, number_of
from ingest.formats import Source, open_source
from ingest.formats.released import DECISIONS, REDACTIONS
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import printable
from ingest.storage.place import place
from jobs.releases.files import read_own
from jobs.reporting.gallery import thumbnail
from jobs.runtime.pictures import PictureRef, Pictures
from jobs.runtime.progress import Feedback
from reports.pages import fill, write_page
from reports.words import percent

SIDE_PX, QUALITY = 480, 70
"""Longer side and JPEG quality of a picture on the page: large enough to see writing that is left."""


def write_contact_sheet(
    page: Path,
    url: str,
    per_rule: int,
    source_url: str,
    format_name: str,
    image_names: Sequence[str],
    feedback: Feedback,
) -> int:
    """Write the page, and return how many pictures it shows.

    url: of the release. per_rule: pictures of each rule. source_url, format_name, image_names: of the scanned pictures.
    PrivsieveError if no picture is covered; SourceError if the source cannot be read, or holds none of the pictures as
    they were scanned; StorageError.
    """
    root = place(url)
    decisions = read_own(root, DECISIONS, url)
    released = decisions.filter(pc.is_valid(decisions["released_sha256"]))
    covered = released.filter(pc.equal(released["action"], "redact"))
    if not covered.num_rows:
        raise PrivsieveError(f"--contact-sheet: no picture of {url} is covered")
    drawn = _drawn(covered, per_rule)
    refs = [PictureRef(row["shard"], row["index"], row["sha256"], row["key"]) for row in drawn]
    try:
        before = _jpegs(open_source(source_url, format_name, None, image_names=image_names), refs)
    except SourceError as error:
        raise SourceError(f"--contact-sheet: {error}; --source says where the scanned pictures are") from None
    num_missing = before.count(None)
    if num_missing == len(before):
        raise SourceError(
            f"--contact-sheet: {source_url} holds none of the covered pictures as they were scanned; --source says "
            "where they are"
        )
    if num_missing:
        feedback.notice(f"{num_missing:,} of {number_of(len(drawn), 'picture')} are not in the source as scanned")
    release = open_source(url, None, None)
    after = _jpegs(release, _as_released(release, drawn, released))
    steps = read_own(root, REDACTIONS, url)
    rules = {row["rule"]: _rule(row, covered, steps) for row in drawn}
    wanted = steps.filter(pc.is_in(steps["index"], pa.array([row["index"] for row in drawn], pa.int64()))).to_pylist()
    for row, was, is_now in zip(drawn, before, after, strict=True):
        of_row = [step_in_words(step) for step in wanted if all(step[name] == row[name] for name in ("shard", "index"))]
        picture = {"name": f"{row['shard']}/{row['key']}", "before": was, "after": is_now, "steps": of_row}
        rules[row["rule"]]["pictures"].append(picture)
    content = fill("contact_sheet.html.j2", release=root.name, rules=[*rules.values()], version=__version__)
    write_page(content, page)
    return len(drawn)


def _drawn(covered: pa.Table, per_rule: int) -> list[Mapping[str, Any]]:
    """Draw this many rows of each rule at random, in their order. The draw follows from their places."""
    places = zip(covered["shard"].to_pylist(), covered["index"].to_pylist(), strict=True)
    marks = [hashlib.sha256(f"{shard}#{index}".encode()).digest() for shard, index in places]
    numbers = dict[str, list[int]]()
    for number, rule in enumerate(covered["rule"].to_pylist()):
        numbers.setdefault(rule, []).append(number)
    chosen = [n for of_rule in numbers.values() for n in heapq.nsmallest(per_rule, of_rule, key=marks.__getitem__)]
    return list(covered.take(pa.array(sorted(chosen), pa.int64())).to_pylist())


def _as_released(release: Source, drawn: Sequence[Mapping[str, Any]], released: pa.Table) -> list[PictureRef]:
    """Return where the pictures are in the release: a shard has its pictures in the order of the decisions."""
    names = {printable(name): name for name in release.shards}
    shards = {row["shard"] for row in drawn}
    indices = {shard: released.filter(pc.equal(released["shard"], shard))["index"].to_pylist() for shard in shards}
    places = {shard: release.picture_indices(names[shard]) for shard in shards}
    refs = list[PictureRef]()
    for row in drawn:
        number, of_shard = indices[row["shard"]].index(row["index"]), places[row["shard"]]
        index = number if of_shard is None else of_shard[number]
        refs.append(PictureRef(row["shard"], index, row["released_sha256"], row["key"]))
    return refs


def _jpegs(source: Source, refs: Sequence[PictureRef]) -> list[bytes | None]:
    """Return a small JPEG of each picture; None if it is not there as it was, or cannot be decoded."""
    pictures, limits = Pictures(source, refs), ImageLimits(max_frames=1, max_side_px=4 * SIDE_PX)
    return [
        thumbnail(image.views[0], (), is_clear=True, side_px=SIDE_PX, quality=QUALITY)
        if isinstance(image := decode(pictures.read(ref).encoded, limits), DecodedImage)
        else None
        for ref in refs
    ]


def _rule(row: Mapping[str, Any], covered: pa.Table, steps: pa.Table) -> dict[str, Any]:
    """Return what the page says of the rule that covered this picture, without pictures. steps: of all pictures."""
    of_rule = covered.filter(pc.equal(covered["rule"], row["rule"])).select(["shard", "index"])
    last = steps.filter(steps["released"]).select(["shard", "index", "step"])
    names = Counter(of_rule.join(last, ["shard", "index"], join_type="inner")["step"].to_pylist())
    last_steps = dict(sorted(names.items(), key=lambda item: (-item[1], item[0])))
    facts = {"rule": row["rule"], "reason": row["reason"]}
    return facts | {"num_covered": of_rule.num_rows, "last_steps": last_steps, "pictures": []}


def step_in_words(step: Mapping[str, Any]) -> str:
    """Return what a step covered, and what the second look then found. step: row of `redactions.parquet`."""
    share = percent(float(step["share_covered"]))
    areas = f"{step['step']}: {number_of(step['num_areas'], 'area')}, {share} of the picture"
    if not step["is_examined"]:
        return f"{areas}; not examined afterwards"
    found = f"still found: {', '.join(step['left'])}" if step["left"] else "nothing found afterwards"
    return f"{areas}; {found}"
