"""`similarity compare`: all pairs, set by set."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest import __version__
from ingest.errors import SourceError
from ingest.images.pixels import Pixels
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.similarity.changing import methods_of
from jobs.similarity.comparing import (
    Corpus,
    EncodedPicture,
    ReadPicture,
    compared,
    drawn,
    read_picture,
    sets_of,
)
from jobs.similarity.request import CompareRequest
from reports.pages import write_page
from reports.similarity.compute import PairFigures, SetPairs
from reports.similarity.results import PairState, Similarity
from reports.similarity.words import render
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import DEFAULT, engine_module
from scoring.picture_encoders import PictureEncoder, frozen_encoder, trained_encoder


class Looking:
    """Lets detectors examine the original and the changed picture: what they still find, others can find, too.

    Keeps the answer for the last original, with which many changed pictures may be compared.
    """

    def __init__(self) -> None:
        """Load the detectors. EngineError if they cannot run here."""
        self._engine = engine_module(DEFAULT).load(EngineOptions())
        self._last: tuple[Pixels, npt.NDArray[np.bool_] | None] | None = None

    def share_still_found(self, original: Pixels, changed: Pixels) -> float | None:
        """Return the share of the attributes found in the original that are found in the changed picture, 0 to 1. None
        if nothing is found in the original, or one of the two cannot be judged."""
        if self._last is None or self._last[0] is not original:
            self._last = (original, self._found(original))
        before = self._last[1]
        if before is None or not before.any():
            return None
        after = self._found(changed)
        return None if after is None else float(after[before].mean())

    def _found(self, pixels: Pixels) -> npt.NDArray[np.bool_] | None:
        """Return whether each attribute is present, or may be. Shape (attributes,)."""
        outcome = self._engine.assess([View(pixels, frozenset(), "")])[0]
        return np.nan_to_num(outcome.values) > 0 if isinstance(outcome, Assessment) else None


@dataclass(frozen=True)
class _Comparer:
    """Compares one pair after the other."""

    encoder: PictureEncoder
    looking: Looking | None

    def of(
        self, original: ReadPicture, encoded: EncodedPicture | None, changed: ReadPicture, is_whole: bool
    ) -> tuple[PairState, PairFigures | None]:
        """Return what became of a pair. encoded: the original; None if it has no pixels. is_whole: whether whole
        pictures are compared."""
        if original.is_withheld or changed.is_withheld:
            return "withheld", None
        if encoded is None or changed.pixels is None:
            return "unreadable", None
        figures = compared(encoded, changed.pixels, is_whole, self.encoder)
        if figures is None:
            return "same", None
        if self.looking is not None:
            still = self.looking.share_still_found(encoded.pixels, changed.pixels)
            figures = replace(figures, still_detected=still)
        return "compared", figures


def run_compare(request: CompareRequest, feedback: Feedback = SILENT) -> Similarity:
    """Compare every changed picture with its original. Nothing is written but the page and the rows.

    SourceError or StorageError of a corpus, or if no changed picture has an original; EngineError if an encoder or
    model cannot be loaded; LabelsError of the hash list.
    """
    if request.out is not None:
        refuse_existing(request.out)
    made, hash_list = methods_of(request.methods), hash_list_of(request.hash_list)
    comparer = _Comparer(
        frozen_encoder() if request.encoder is None else trained_encoder(request.encoder),
        Looking() if request.look_again else None,
    )
    originals = Corpus(request.originals)
    wanted = drawn(originals.places, request.sample, request.seed)
    changed_sets = sets_of(request.changed, made, originals, hash_list, request.seed)
    sets = [(each, SetPairs(each.name, comparer.encoder.num_dimensions)) for each in changed_sets]
    with feedback.meter("compare", len(wanted) * len(sets)) as meter:
        for place_ in wanted:
            picture = read_picture(originals, place_, hash_list)
            encoded = None if picture.pixels is None else EncodedPicture(picture.pixels, comparer.encoder)
            for of_set, pairs in sets:
                changed = of_set.changed(place_, picture)
                if changed is None:
                    pairs.num_originals_without += 1
                else:
                    is_whole = request.part == "whole" or of_set.is_everywhere
                    pairs.add(originals.key_of(place_), *comparer.of(picture, encoded, changed, is_whole))
                meter.advance(1)
    for of_set, pairs in sets:
        if of_set.corpus is not None:
            _add_strangers(pairs, of_set.corpus, originals)
    collected = [pairs.result() for _, pairs in sets]
    similarity = Similarity(
        num_originals=len(originals.places),
        num_drawn=len(wanted),
        part=request.part,
        encoder=comparer.encoder.name,
        sets=tuple(figures for figures, _ in collected),
        seed=request.seed,
        version=__version__,
    )
    for figures in similarity.sets:
        if not figures.num_compared and not figures.counts.get("same"):
            feedback.notice(f"{figures.name}: no picture could be compared")
    if not any(figures.num_compared or figures.counts.get("same") for figures in similarity.sets):
        raise SourceError(
            f"no changed picture could be compared with one of {request.originals}; keys must be the same"
        )
    if request.out is not None:
        write_checked(place(request.out), pa.concat_tables([table for _, table in collected]))
    if request.html is not None:
        write_page(render(similarity), request.html)
    return similarity


def _add_strangers(pairs: SetPairs, corpus: Corpus, originals: Corpus) -> None:
    """Count the changed pictures that belong to no original at all, drawn or not."""
    for place_ in corpus.places:
        if originals.partner_of(place_, corpus) is None:
            pairs.add(corpus.key_of(place_), "no_original")
