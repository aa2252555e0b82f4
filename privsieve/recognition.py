"""Whether changed pictures still show what they did, by figures and by people. `privsieve` offers these functions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from jobs.console.requests import asked as request_of
from jobs.serving.local_server import refuse_missing
from jobs.similarity.asking import AskResult, result_of
from jobs.similarity.request import AskRequest, CompareRequest, VotesRequest
from jobs.similarity.run import run_compare, run_votes
from privsieve.asking import ServedPage, Url, takes
from reports.similarity.recognised import StudyVotes
from reports.similarity.results import Similarity


@takes(CompareRequest)
def similarity(
    originals: Url,
    changed: Sequence[Url] = (),
    *,
    methods: Sequence[str] = (),
    sample: int | None = None,
    seed: int = 0,
    part: Literal["areas", "whole"] = "areas",
    encoder: Url | None = None,
    look_again: bool = False,
    hash_list: Url | None = None,
    html: Url | None = None,
    out: Url | None = None,
) -> Similarity:
    """Compare changed pictures with their originals and return everything that `privsieve similarity compare` says.

    SourceError, StorageError, EngineError, LabelsError.
    """
    return run_compare(request_of(CompareRequest, locals()))


class StudyPage(ServedPage[AskResult]):
    """The page on which people say what they recognise."""


@takes(AskRequest)
@contextmanager
def similarity_ask(
    originals: Url,
    out: Url,
    *,
    changed: Sequence[Url] = (),
    methods: Sequence[str] = (),
    asked: Literal["candidates", "classes", "pairs"] = "candidates",
    num_candidates: int = 20,
    decoys: float | None = None,
    votes: int = 5,
    once: bool = False,
    reviewer: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    hash_list: Url | None = None,
    port: int = 0,
) -> Iterator[StudyPage]:
    """Serve the page of a study of people for the length of a `with` block, as `privsieve similarity ask`.

    SourceError, LabelsError, StorageError, PrivsieveError.

        with privsieve.similarity_ask("photos/", "study", methods=["all"], sample=100) as page:
            print(page.address)
            input("Enter ends it")
        privsieve.similarity_votes("study", out="votes.csv")
    """
    request = request_of(AskRequest, locals())
    refuse_missing("similarity_ask")
    from jobs.similarity.asking_page import serving

    with serving(request) as server, server.in_background():
        yield StudyPage(server, result_of)


@takes(VotesRequest)
def similarity_votes(
    study: Url, *, out: Url | None = None, min_votes: int = 5, min_attention: float | None = None
) -> StudyVotes:
    """Count what people recognised in a study, as `privsieve similarity votes`.

    LabelsError, StorageError; no votes are written then.
    """
    return run_votes(request_of(VotesRequest, locals()))
