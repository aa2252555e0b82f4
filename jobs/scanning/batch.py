"""Samples -> rows: decode, ask the engine, make the table. The one place where pixels meet an engine."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from ingest.images.decode import DecodedImage, ImageLimits, Rejected, decode
from ingest.sample import Sample
from scoring.assessment import Engine, Outcome, Unscored, View, worst
from scoring.table import Facts, Quarantined, Verdict, to_table


class BatchScorer:
    """Scores a few samples at a time; `num_threads` decode, since decoders let go of Python's lock."""

    def __init__(self, engine: Engine, limits: ImageLimits, num_threads: int):
        self._engine = engine
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads)

    def rows(self, samples: Sequence[Sample]) -> pa.Table:
        """One row of `scoring.table.SCHEMA` per sample, in order."""
        decoded = list(self._threads.map(self._decode, samples))
        facts = [_facts(s, d) for s, d in zip(samples, decoded, strict=True)]
        return to_table(facts, self._verdicts(facts, decoded))

    def _decode(self, sample: Sample) -> DecodedImage | Rejected:
        if sample.fault is not None:
            return Rejected(*sample.fault)
        return decode(sample.encoded, self._limits)

    def _verdicts(self, facts: Sequence[Facts], decoded: Sequence[DecodedImage | Rejected]) -> list[Verdict]:
        images = [(f, d) for f, d in zip(facts, decoded, strict=True) if isinstance(d, DecodedImage)]
        views = [View(pixels, d.metadata, f.sha256 or "") for f, d in images for pixels in d.views]
        outcomes = iter(self._engine.assess(views) if views else [])
        verdicts: list[Verdict] = []
        for d in decoded:
            if isinstance(d, Rejected):
                verdicts.append(Quarantined(d.reason, d.message))
                continue
            verdicts.append(_verdict(worst(list(islice(outcomes, len(d.views))))))
        return verdicts


def facts_of(sample: Sample) -> Facts:
    """What is known of a sample before it is decoded."""
    return _facts(sample, Rejected(*(sample.fault or ("", ""))))


def quarantined(facts: Facts, reason: str, message: str) -> pa.Table:
    """The row of a sample that could not be looked at."""
    return to_table([facts], [Quarantined(reason, message)])


def _verdict(outcome: Outcome) -> Verdict:
    return Quarantined(outcome.reason, outcome.message) if isinstance(outcome, Unscored) else outcome


def _facts(sample: Sample, decoded: DecodedImage | Rejected) -> Facts:
    has_bytes = sample.fault is None
    return Facts(
        shard=sample.shard,
        index=sample.index,
        key=sample.key,
        category=sample.category,
        num_bytes=len(sample.encoded) if has_bytes else None,
        sha256=hashlib.sha256(sample.encoded).hexdigest() if has_bytes else None,
        width=decoded.width,
        height=decoded.height,
        format=decoded.format,
        num_frames=decoded.num_frames if isinstance(decoded, DecodedImage) else None,
        num_frames_scanned=decoded.num_frames_decoded if isinstance(decoded, DecodedImage) else None,
        unseen=decoded.unseen if isinstance(decoded, DecodedImage) else None,
        unseen_bytes=decoded.unseen_bytes if isinstance(decoded, DecodedImage) else None,
    )
