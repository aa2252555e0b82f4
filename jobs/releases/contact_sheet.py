"""`verify --contact-sheet`: covered pictures as they were scanned and as they are released, side by side, by rule.

The second look says that a detector finds nothing more. Whether a person does, only people can say.
Names and reasons are hostile: Jinja escapes them, and the page runs no script.
"""

import hashlib
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest import __version__
from ingest.errors import PrivsieveError, SourceError, number_of
from ingest.formats import Source, open_source
from ingest.formats.released import REDACTIONS, CoverStep
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import printable
from ingest.storage.place import place
from jobs.releases.decisions import read_decisions
from jobs.releases.files import read_own
from jobs.reporting.gallery import thumbnail
from jobs.runtime.pictures import PictureRef, Pictures
from jobs.runtime.progress import Feedback
from reports.pages import fill, write_page
from reports.words import percent

SIDE_PX, QUALITY = 480, 70
"""Longer side and JPEG quality of a picture on the page: large enough to see writing that is left."""


@dataclass(frozen=True)
class CoveredPicture:
    """One picture of the sheet."""

    name: str
    """SHARD/KEY."""

    before: bytes | None
    """A JPEG; None if the source no longer holds the picture as it was scanned."""

    after: bytes | None
    """A JPEG; None if the released picture cannot be decoded."""

    steps: tuple[CoverStep, ...]
    """How it was covered; it was released as it was after the last one."""


@dataclass(frozen=True)
class CoveredByRule:
    """What one rule of the policy covered."""

    rule: str
    reason: str

    last_steps: Mapping[str, int]
    """Name of the step that cleared a picture -> number of pictures."""

    pictures: Sequence[CoveredPicture]
    """Those that were drawn."""

    @property
    def num_covered(self) -> int:
        """Return the number of released pictures that the rule covered."""
        return sum(self.last_steps.values())


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
    decisions = read_decisions(root, url)
    released = decisions.filter(pc.is_valid(decisions["released_sha256"]))
    covered = released.filter(pc.equal(released["action"], "redact"))
    if not covered.num_rows:
        raise PrivsieveError(f"--contact-sheet: no picture of {url} is covered")
    drawn = _drawn(covered, per_rule)

    try:
        before = _jpegs(
            open_source(source_url, format_name, None, image_names=image_names),
            [PictureRef(row["shard"], row["index"], row["sha256"], row["key"]) for row in drawn],
        )
    except SourceError as error:
        raise SourceError(f"--contact-sheet: {error}; --source says where the scanned pictures are") from None
    num_missing = sum(jpeg is None for jpeg in before)
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
    of_pictures = _steps_of(drawn, steps)
    cleared = _cleared_by(covered, steps)
    shown = [
        (row, CoveredPicture(f"{row['shard']}/{row['key']}", was, is_now, of_pictures[row["shard"], row["index"]]))
        for row, was, is_now in zip(drawn, before, after, strict=True)
    ]
    rules = [
        CoveredByRule(rule, reason, cleared[rule], [picture for row, picture in shown if row["rule"] == rule])
        for rule, reason in {row["rule"]: row["reason"] for row in drawn}.items()
    ]
    write_page(render(root.name, rules), page)
    return len(drawn)


def _drawn(covered: pa.Table, per_rule: int) -> list[Mapping[str, Any]]:
    """Draw this many rows of each rule at random, in their order. The draw follows from their places."""
    places = zip(covered["shard"].to_pylist(), covered["index"].to_pylist(), strict=True)
    marks = [hashlib.sha256(f"0/{shard}#{index}".encode()).digest() for shard, index in places]
    numbers = dict[str, list[int]]()
    for number, rule in enumerate(covered["rule"].to_pylist()):
        numbers.setdefault(rule, []).append(number)
    chosen = [
        number for of_rule in numbers.values() for number in heapq.nsmallest(per_rule, of_rule, key=marks.__getitem__)
    ]
    return list(covered.take(pa.array(sorted(chosen), pa.int64())).to_pylist())


def _as_released(release: Source, drawn: Sequence[Mapping[str, Any]], released: pa.Table) -> list[PictureRef]:
    """Return where the pictures are in the release: a shard has its pictures in the order of the decisions."""
    shards = {row["shard"] for row in drawn}
    indices = {shard: released.filter(pc.equal(released["shard"], shard))["index"].to_pylist() for shard in shards}
    names = {printable(name): name for name in release.shards}
    places = {shard: release.picture_indices(names[shard]) for shard in shards}
    refs = list[PictureRef]()
    for row in drawn:
        number, of_shard = indices[row["shard"]].index(row["index"]), places[row["shard"]]
        index = number if of_shard is None else of_shard[number]
        refs.append(PictureRef(row["shard"], index, row["released_sha256"], row["key"]))
    return refs


def _jpegs(source: Source, refs: Sequence[PictureRef]) -> list[bytes | None]:
    """Return a small JPEG of each picture; None if it is not there as it was, or cannot be decoded."""
    pictures = Pictures(source, refs)
    limits = ImageLimits(max_frames=1, max_side_px=4 * SIDE_PX)
    decoded = (decode(pictures.read(ref).encoded, limits) for ref in refs)
    return [
        thumbnail(image.views[0], (), is_clear=True, side_px=SIDE_PX, quality=QUALITY)
        if isinstance(image, DecodedImage)
        else None
        for image in decoded
    ]


def _steps_of(drawn: Sequence[Mapping[str, Any]], steps: pa.Table) -> dict[tuple[str, int], tuple[CoverStep, ...]]:
    """Return shard and index -> the steps of each picture, in their order. steps: of `redactions.parquet`."""
    of_pictures = {(row["shard"], row["index"]): list[CoverStep]() for row in drawn}
    near = steps.filter(pc.is_in(steps["index"], pa.array([index for _, index in of_pictures], pa.int64())))
    for row in near.to_pylist():
        if (row["shard"], row["index"]) in of_pictures:
            step = (row["step"], row["num_areas"], row["share_covered"], tuple(row["left"]), row["is_examined"])
            of_pictures[row["shard"], row["index"]].append(CoverStep(*step))
    return {picture: tuple(taken) for picture, taken in of_pictures.items()}


def _cleared_by(covered: pa.Table, steps: pa.Table) -> dict[str, dict[str, int]]:
    """Return rule -> step after which a picture was released -> number of pictures, the most frequent first."""
    last = steps.filter(steps["released"]).select(["shard", "index", "step"])
    joined = covered.select(["shard", "index", "rule"]).join(last, ["shard", "index"], join_type="inner")
    groups = joined.group_by(["rule", "step"]).aggregate([([], "count_all")]).to_pylist()
    counts = dict[str, dict[str, int]]()
    for group in sorted(groups, key=lambda group: (-group["count_all"], group["step"])):
        counts.setdefault(group["rule"], {})[group["step"]] = group["count_all"]
    return counts


def render(release: str, rules: Sequence[CoveredByRule]) -> str:
    """Return the contact sheet as one HTML page, which needs no other file and may load none."""
    return fill(
        "contact_sheet.html.j2",
        release=release,
        rules=rules,
        step_in_words=step_in_words,
        version=__version__,
    )


def step_in_words(step: CoverStep) -> str:
    """Return what a step covered, and what the second look then found.

    >>> step_in_words(CoverStep("boxes", 2, 0.081, ("faces",)))
    'boxes: 2 areas, 8.1 % of the picture; still found: faces'
    """
    areas = f"{step.name}: {number_of(step.num_areas, 'area')}, {percent(float(step.share_covered))} of the picture"
    if not step.is_examined:
        return f"{areas}; not examined afterwards"
    left = f"still found: {', '.join(step.left)}" if step.left else "nothing found afterwards"
    return f"{areas}; {left}"
