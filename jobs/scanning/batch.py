"""Samples -> rows: decode, ask the engine, make the table. The one place where pixels meet an engine."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from ingest.fault import Fault
from ingest.images.decode import DecodedImage, ImageLimits, Rejected, decode
from ingest.images.phash import phash
from ingest.sample import Sample
from scoring.assessment import Engine, View, worst
from scoring.captions import caption_kinds
from scoring.table import Facts, Verdict, to_table


class BatchScorer:
    """Scores a few samples at a time; `num_threads` decode, since decoders let go of Python's lock."""

    def __init__(self, engine: Engine, limits: ImageLimits, num_threads: int, uses_caption: bool = False):
        """uses_caption: `EngineDescription.uses_caption`."""
        self._engine = engine
        self._uses_caption = uses_caption
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads)

    def rows(self, samples: Sequence[Sample]) -> pa.Table:
        """One row of `scoring.table.SCHEMA` per sample, in order."""
        looked_at = list(self._threads.map(self._look, samples))
        facts = [found for found, _ in looked_at]
        return to_table(facts, self._verdicts(samples, looked_at))

    def _look(self, sample: Sample) -> tuple[Facts, DecodedImage | Fault]:
        decoded = sample.fault or decode(sample.encoded, self._limits)
        return _facts(sample, decoded), decoded

    def _verdicts(
        self, samples: Sequence[Sample], looked_at: Sequence[tuple[Facts, DecodedImage | Fault]]
    ) -> list[Verdict]:
        decoded = [image for _, image in looked_at]
        views = [
            View(pixels, image.metadata, facts.sha256 or "", sample.caption if self._uses_caption else None)
            for sample, (facts, image) in zip(samples, looked_at, strict=True)
            if isinstance(image, DecodedImage)
            for pixels in image.views
        ]
        outcomes = iter(self._engine.assess(views) if views else [])
        verdicts: list[Verdict] = []
        for d in decoded:
            if isinstance(d, Fault):
                verdicts.append(d)
                continue
            verdicts.append(worst(list(islice(outcomes, len(d.views)))))
        return verdicts


def facts_of(sample: Sample) -> Facts:
    """What is known of a sample before it is decoded."""
    return _facts(sample, None)


def quarantined(facts: Facts, fault: Fault) -> pa.Table:
    """The row of a sample that could not be looked at."""
    return to_table([facts], [fault])


def _facts(sample: Sample, decoded: DecodedImage | Fault | None) -> Facts:
    has_bytes = sample.fault is None
    image = decoded if isinstance(decoded, DecodedImage) else None
    header = decoded if isinstance(decoded, Rejected) else image
    return Facts(
        shard=sample.shard,
        index=sample.index,
        key=sample.key,
        category=sample.category,
        num_bytes=len(sample.encoded) if has_bytes else None,
        sha256=hashlib.sha256(sample.encoded).hexdigest() if has_bytes else None,
        width=header.width if header else None,
        height=header.height if header else None,
        format=header.format if header else None,
        num_frames=image.num_frames if image else None,
        num_frames_scanned=image.num_frames_decoded if image else None,
        unseen=image.unseen if image else None,
        unseen_bytes=image.unseen_bytes if image else None,
        phash=phash(image.views[0]) if image else None,
        url_sha256=sample.url_sha256,
        caption_kinds=None if sample.caption is None else caption_kinds(sample.caption),
    )
