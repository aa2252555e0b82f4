"""`similarity compare`: all pairs, set by set."""

import pyarrow as pa

from ingest import __version__
from ingest.errors import SourceError
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.similarity.comparing import Corpus, EncodedPicture, ReadPicture, compared, corpora_of, drawn, read_picture
from jobs.similarity.request import CompareRequest
from reports.similarity.compute import PairFigures, SetPairs
from reports.similarity.results import PairState, Similarity
from scoring.picture_encoders import PictureEncoder, frozen_encoder, trained_encoder


def _pair(
    original: ReadPicture, encoded: EncodedPicture | None, changed: ReadPicture, is_whole: bool, encoder: PictureEncoder
) -> tuple[PairState, PairFigures | None]:
    """Return what became of a pair. encoded: the original; None if it has no pixels."""
    if original.is_withheld or changed.is_withheld:
        return "withheld", None
    if encoded is None or changed.pixels is None:
        return "unreadable", None
    figures = compared(encoded, changed.pixels, is_whole, encoder)
    return ("same", None) if figures is None else ("compared", figures)


def run_compare(request: CompareRequest, feedback: Feedback = SILENT) -> Similarity:
    """Compare every changed picture with its original. Nothing is written but the rows.

    SourceError or StorageError of a corpus, or if no changed picture has an original; EngineError if an encoder or
    model cannot be loaded; LabelsError of the hash list.
    """
    if request.out is not None:
        refuse_existing(request.out)
    hash_list = hash_list_of(request.hash_list)
    encoder = frozen_encoder() if request.encoder is None else trained_encoder(request.encoder)
    originals = Corpus(request.originals)
    wanted = drawn(originals.places, request.sample, request.seed)
    sets = [(corpus, SetPairs(name)) for name, corpus in corpora_of(request.changed).items()]
    with feedback.meter("compare", len(wanted) * len(sets)) as meter:
        for place_ in wanted:
            picture = read_picture(originals, place_, hash_list)
            encoded = None if picture.pixels is None else EncodedPicture(picture.pixels, encoder)
            for corpus, pairs in sets:
                partner = corpus.partner_of(place_, originals)
                if partner is None:
                    pairs.num_originals_without += 1
                else:
                    changed = read_picture(corpus, partner, hash_list)
                    pair = _pair(picture, encoded, changed, request.part == "whole", encoder)
                    pairs.add(originals.key_of(place_), *pair)
                meter.advance(1)
    for corpus, pairs in sets:
        for place_ in corpus.places:
            if originals.partner_of(place_, corpus) is None:  # of no original at all, drawn or not
                pairs.add(corpus.key_of(place_), "no_original")
    collected = [pairs.result() for _, pairs in sets]
    similarity = Similarity(
        num_originals=len(originals.places),
        num_drawn=len(wanted),
        part=request.part,
        encoder=encoder.name,
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
    return similarity
