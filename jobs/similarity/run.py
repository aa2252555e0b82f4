"""`similarity compare`: all pairs, set by set; `similarity rank`: their figures against what people recognised."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest import __version__
from ingest.errors import LabelsError, SourceError, number_of
from ingest.images.pixels import Pixels
from ingest.storage.given_files import given_content
from ingest.storage.parquet_tables import refuse_damage, write_checked
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
from jobs.similarity.request import CompareRequest, RankRequest, VotesRequest
from reports.pages import write_page
from reports.similarity.compute import PairFigures, SetPairs
from reports.similarity.recognised import Ranking, StudyVotes, Votes, ranks_of, votes_of
from reports.similarity.results import PAIRS_SCHEMA, PairState, Similarity
from reports.similarity.words import render
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import DEFAULT, engine_module
from scoring.labels.label_files import MAX_ROWS, as_csv, text_columns, unescaped
from scoring.labels.recognition import read_questions, standing_answers, study_answers
from scoring.similarity.encoders import PictureEncoder, frozen_encoder, trained_encoder

MAX_BYTES = 2**30

NEEDED = ("set", "key", "recognised")
COLUMNS = (*NEEDED, "annotator")

ANSWERS = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


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


def run_votes(request: VotesRequest) -> StudyVotes:
    """Count what people said in a study. LabelsError or StorageError of its folder; nothing is written but the votes.

    LabelsError also if no pair has enough votes and they are to be written.
    """
    if request.out is not None:
        refuse_existing(request.out)
    folder = place(request.study)
    questions, answers = read_questions(folder), study_answers(folder)
    answers.refresh()
    votes, rows = votes_of(questions, standing_answers(answers), request.min_votes, request.min_attention)
    if request.out is not None:
        if not rows.num_rows:
            raise LabelsError(f"{request.study}: no pair has {number_of(request.min_votes, 'vote')}; see --min-votes")
        place(request.out).write(as_csv(rows))
    return votes


def run_rank(request: RankRequest) -> Ranking:
    """Rank the metrics. RunError or StorageError of a file of pairs. LabelsError of the labels, or if they belong to
    fewer than three sets."""
    votes = None if request.labels is None else _votes(request.labels)
    collections = []
    for url in request.pairs:
        pairs = _pairs(url)
        collections.append(ranks_of(url, pairs, _detected(url, pairs) if votes is None else votes))
    judge = "as the labels say, by majority"
    if votes is None:
        judge = "by detectors, as a share of what they find in the original"
    return Ranking(judge, tuple(collections))


def _pairs(url: str) -> pa.Table:
    content = given_content(place(url), url, MAX_BYTES)
    with refuse_damage(f"{url}:", "is no file of similarity compare --out"):
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.schema_arrow.names != PAIRS_SCHEMA.names or file.metadata.num_rows > MAX_ROWS:
            raise ValueError("other columns")
        return file.read().cast(PAIRS_SCHEMA)


def _detected(url: str, pairs: pa.Table) -> Votes:
    known = pairs.filter(pc.is_valid(pairs["still_detected"]))
    if not known.num_rows:
        raise LabelsError(f"{url}: give --labels, or compare with --look-again, since nothing says what is recognised")
    columns = (known[name].to_pylist() for name in ("set", "key", "still_detected"))
    return {(set_name, key): (share,) for set_name, key, share in zip(*columns, strict=True)}


def _votes(url: str) -> Votes:
    content = given_content(place(url), url, MAX_BYTES)
    table = _text_table(content, url)
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise LabelsError(
            f'{url}: has no column "{missing[0]}"; it needs set, key and recognised, and may have annotator'
        )
    votes, seen = defaultdict[tuple[str, str], list[float]](list), set[tuple[str, str, str]]()
    names = [name for name in COLUMNS if name in table.column_names]
    for line, cells in enumerate(zip(*(table[name].to_pylist() for name in names), strict=True), 2):
        row = dict(zip(names, cells, strict=True))
        if row["recognised"] is None:
            continue  # not judged
        answer = ANSWERS.get(row["recognised"].strip().lower())
        if answer is None or row["set"] is None or row["key"] is None:
            raise LabelsError(f"{url}, line {line}: needs set and key, and recognised as 1 or 0, or empty")
        who = (row["set"], row["key"], row.get("annotator") or "")
        if who in seen:
            raise LabelsError(f"{url}, line {line}: this annotator judges the pair a second time; keep one row")
        seen.add(who)
        votes[unescaped(row["set"]), unescaped(row["key"])].append(answer)
    return votes


def _text_table(content: bytes, url: str) -> pa.Table:
    if not content.startswith(b"PAR1"):
        return text_columns(content, url)
    with refuse_damage(f"{url}:", "cannot be read as labels of pairs", LabelsError):
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.metadata.num_rows > MAX_ROWS:
            raise ValueError("too many rows")
        table = file.read(columns=[name for name in COLUMNS if name in file.schema_arrow.names])
        columns = [
            pc.cast(column, pa.int64()) if pa.types.is_boolean(column.type) else column for column in table.columns
        ]
        return pa.table([pc.cast(column, pa.string()) for column in columns], names=table.column_names)
