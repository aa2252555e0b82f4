"""Samples -> rows: decode, ask the engine, make the table. Pixels meet an engine only here."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from ingest.errors import Fault
from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.phash import phash
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.scan.batch_window import BATCH_SAMPLES, Flow
from scoring.assessment import Engine, View, worst
from scoring.captions import caption_kinds
from scoring.screen.guard import is_guarded
from scoring.screen.modalities import PictureView
from scoring.screen.model import FittedScreen, Screener
from scoring.table import FULL, GUARD, LISTED, NO_LOOK, SCREEN, Facts, FirstLook, ScreenedOut, Verdict, to_table

ON_HASH_LIST = Fault(LISTED, "it is on the hash list of the scan")


class BatchScorer:
    """Scores a few samples at a time; `num_threads` decode, since decoders release Python's lock."""

    def __init__(
        self,
        engine: Engine,
        limits: ImageLimits,
        num_threads: int,
        uses_caption: bool = False,
        hash_list: HashList = NOTHING,
        flow: Flow | None = None,
        screen: FittedScreen | None = None,
    ):
        """Create a scorer. uses_caption: `EngineDescription.uses_caption`. hash_list: pictures that the engine never
        sees; if it has PDQ hashes, `limits.has_pdq` must be set. flow: counts what is being decoded and scored; None:
        not needed. screen: looks first, at the pixels that are decoded for the engine; EngineError if it cannot run
        here."""
        self._engine = engine
        self._flow = flow or Flow()
        self._hash_list = hash_list
        self._uses_caption = uses_caption
        self._screen = screen
        self._screener = None if screen is None else Screener(screen)
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads)

    def rows(self, samples: Sequence[Sample]) -> pa.Table:
        """Return one row of `scoring.table.SCHEMA` per sample, in order."""
        num_bytes = sum(len(sample.encoded) for sample in samples)
        self._flow.held(num_bytes)
        try:
            tables = [self._first_rows(samples)]
            while (num_rows := sum(table.num_rows for table in tables)) < len(samples):
                tables.append(self._first_rows(samples[num_rows:]))
            return pa.concat_tables(tables)
        finally:
            self._flow.held(-num_bytes)

    def _first_rows(self, samples: Sequence[Sample]) -> pa.Table:
        """Return the rows of the first samples: of as many as have `BATCH_SAMPLES` pictures for the engine, or of all.
        No more than these are decoded at a time."""
        seen, num_for_engine, num_bytes = list[_Seen](), 0, 0
        try:
            while num_for_engine < BATCH_SAMPLES and len(seen) < len(samples):
                more = self._seen(samples[len(seen) : len(seen) + BATCH_SAMPLES - num_for_engine])
                seen += more
                more_bytes = sum(_num_pixel_bytes(each.image) for each in more)
                self._flow.held(more_bytes)
                num_bytes += more_bytes
                num_for_engine += sum(isinstance(each.image, DecodedImage) for each in more)
            return to_table([each.facts for each in seen], self._verdicts(seen), [each.look for each in seen])
        finally:
            self._flow.held(-num_bytes)

    def _seen(self, samples: Sequence[Sample]) -> list["_Seen"]:
        with self._flow.at("decoding", len(samples)):
            pictures = self._without_listed(list(self._threads.map(self._look, samples)))
            looks = list(self._threads.map(self._first_look, samples, pictures))
        return [
            _Seen(facts, ScreenedOut() if look.stage == SCREEN else image, look, sample.caption)
            for sample, (facts, image), look in zip(samples, pictures, looks, strict=True)
        ]

    def facts_of(self, sample: Sample) -> Facts:
        """Return what is known of a sample before it is decoded; of one on the hash list, only where it is."""
        facts = facts_of(sample)
        return Facts.of_listed(facts.shard, facts.index) if facts.sha256 in self._hash_list.sha256 else facts

    def _look(self, sample: Sample) -> tuple[Facts, DecodedImage | Fault]:
        before = facts_of(sample)
        if before.sha256 in self._hash_list.sha256:
            return before, ON_HASH_LIST
        decoded = sample.fault or decode(sample.encoded, self._limits)
        return _decoded_facts(before, decoded), decoded

    def _without_listed(
        self, pictures: Sequence[tuple[Facts, DecodedImage | Fault]]
    ) -> list[tuple[Facts, DecodedImage | Fault]]:
        """Return the pictures, with only the place of those on the hash list."""
        listings = self._hash_list.listings(
            [facts.sha256 for facts, _ in pictures], [facts.pdq for facts, _ in pictures]
        )
        return [
            (Facts.of_listed(facts.shard, facts.index), ON_HASH_LIST) if listing == "listed" else (facts, image)
            for (facts, image), listing in zip(pictures, listings, strict=True)
        ]

    def _first_look(self, sample: Sample, seen: tuple[Facts, DecodedImage | Fault]) -> FirstLook:
        facts, image = seen
        if self._screen is None or self._screener is None or not isinstance(image, DecodedImage):
            return NO_LOOK
        sha256, threshold = facts.sha256 or "", self._screen.record.threshold_of(facts.category)
        views = [View(pixels, image.metadata, sha256, sample.caption) for pixels in image.views]
        probability = self._screener.probability([PictureView(view, image.width, image.height) for view in views])
        if probability is None or threshold is None or probability >= threshold:
            return FirstLook(FULL, probability)
        stage = GUARD if is_guarded(sha256, self._screen.record.guard_share) else SCREEN
        return FirstLook(stage, probability)

    def _verdicts(self, seen: Sequence["_Seen"]) -> list[Verdict]:
        """Return the verdicts. The engine sees none of the pictures that the screen left out."""
        views = [
            View(pixels, each.image.metadata, each.facts.sha256 or "", each.caption if self._uses_caption else None)
            for each in seen
            if isinstance(each.image, DecodedImage)
            for pixels in each.image.views
        ]
        outcomes = iter(self._engine.assess(views) if views else [])
        verdicts: list[Verdict] = []
        for each in seen:
            if isinstance(each.image, (Fault, ScreenedOut)):
                verdicts.append(each.image)
                continue
            verdicts.append(worst(list(islice(outcomes, len(each.image.views)))))
        return verdicts


@dataclass(frozen=True)
class _Seen:
    """A sample that was decoded, and what a screen says of it."""

    facts: Facts
    image: DecodedImage | Fault | ScreenedOut
    look: FirstLook
    caption: str | None


def facts_of(sample: Sample) -> Facts:
    """Return what is known of a sample before it is decoded."""
    has_bytes = sample.fault is None
    return Facts(
        shard=sample.shard,
        index=sample.index,
        key=sample.key,
        category=sample.category,
        num_bytes=len(sample.encoded) if has_bytes else None,
        sha256=hashlib.sha256(sample.encoded).hexdigest() if has_bytes else None,
        url_sha256=sample.url_sha256,
        domain=sample.domain,
        caption_kinds=None if sample.caption is None else caption_kinds(sample.caption),
    )


def _num_pixel_bytes(image: DecodedImage | Fault | ScreenedOut) -> int:
    return sum(view.nbytes for view in image.views) if isinstance(image, DecodedImage) else 0


def quarantined(facts: Facts, fault: Fault) -> pa.Table:
    """Return the row of a sample that could not be scanned."""
    return to_table([facts], [fault])


def _decoded_facts(before: Facts, decoded: DecodedImage | Fault) -> Facts:
    if isinstance(decoded, DecodedImage):
        return replace(
            before,
            width=decoded.width,
            height=decoded.height,
            format=decoded.format,
            num_frames=decoded.num_frames,
            num_frames_scanned=decoded.num_frames_decoded,
            unseen=decoded.unseen,
            unseen_bytes=decoded.unseen_bytes,
            phash=phash(decoded.views[0]),
            pdq=decoded.pdq,
        )
    if isinstance(decoded, Rejected):
        return replace(before, width=decoded.width, height=decoded.height, format=decoded.format)
    return before
