"""The verb `similarity`: whether changed pictures still show what the originals did."""

import shlex

import click

from ingest.errors import number_of
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_document, write_line, wrote_json
from jobs.runtime.progress import on_terminal
from jobs.serving.local_server import refuse_missing
from jobs.similarity.request import AskRequest, CompareRequest, RankRequest, SimilarityTrainRequest, VotesRequest


@click.group(cls=Commands)
def similarity() -> None:
    """Say whether covered, blurred or otherwise changed pictures still show the same person or thing.

    "similarity compare" has the figures, "similarity ask" asks people and "similarity votes" counts what they
    recognised, "similarity rank" says which figure follows that, and "similarity train" makes an encoder that follows
    it better.
    """


@similarity.command()
@takes(CompareRequest)
@TEXT_OR_JSON
@QUIET
def compare(request: CompareRequest, output: str, quiet: bool) -> None:
    """Compare ORIGINALS with CHANGED pictures of the same keys, or with versions made in memory.

    Each CHANGED, and each method at each strength, is a set with a row of figures: how many pictures can be found again
    among all originals, SemSim, SSIM, PSNR, MSE and FID.

    Example: privsieve similarity compare photos/ release/

    Example: privsieve similarity compare photos/ --method blur --method pixelate=8 --sample 500
    """
    from jobs.similarity.run import run_compare

    similarity = run_compare(request, on_terminal(quiet))
    if wrote_json(similarity, output):
        return
    from reports.similarity.words import document

    write_document(document(similarity))
    for what, where in (("rows", request.out), ("page", request.html)):
        if where is not None:
            write_line(f"{what} written to {where}")


@similarity.command()
@takes(AskRequest)
def ask(request: AskRequest) -> None:
    """Ask people in the browser what they recognise in CHANGED pictures, or in versions of ORIGINALS made in memory.

    Prints an address of this machine with a key in it; Ctrl-C ends it. The page shows a changed picture, and originals
    or names of classes with "none of these", or one original with "not the same". It never says what is right, nor how
    a picture was changed. Answers are saved in --out at once. Needs the extra review.

    Example: privsieve similarity ask photos/ --method all --sample 100 --out study

    Example: privsieve similarity ask photos/ release/ --for pairs --out study --as ana
    """
    refuse_missing("similarity ask")
    from jobs.similarity.asking import result_of
    from jobs.similarity.asking_page import serving

    with serving(request, on_terminal(quiet=False)) as server:
        server.run_until_interrupted("it; what was answered stays.")
        result = result_of(server.page)
    for person in result.people:
        write_line(f"{person.name}: {person.in_words}")
    write_line(f"{number_of(result.num_saved, 'answer')} saved in {request.out}, changed and undone ones included")
    write_line(f"next: privsieve similarity votes {shlex.quote(request.out)} --out votes.csv")


@similarity.command()
@takes(VotesRequest)
@TEXT_OR_JSON
def votes(request: VotesRequest, output: str) -> None:
    """Count what people recognised in STUDY, the folder of "similarity ask".

    The majority of a pair's votes counts. Ties, pairs with too few votes and pairs without any are counted apart.

    Example: privsieve similarity votes study --out votes.csv
    """
    from jobs.similarity.run import run_votes

    counted = run_votes(request)
    if wrote_json(counted, output):
        return
    from reports.similarity.words import votes_document

    write_document(votes_document(counted))
    if request.out is not None:
        write_line(f"votes written to {request.out}, for similarity rank --labels")


@similarity.command()
@takes(RankRequest)
@TEXT_OR_JSON
def rank(request: RankRequest, output: str) -> None:
    """Say how well each metric of PAIRS follows what people, or else detectors, recognise.

    Kendall's and Spearman's rank correlation over the sets: the mean of a metric against the share of pairs that were
    recognised. Several votes for one pair are decided by the majority.

    Example: privsieve similarity rank pairs.parquet --labels votes.csv
    """
    from jobs.similarity.run import run_rank

    ranking = run_rank(request)
    if wrote_json(ranking, output):
        return
    from reports.similarity.words import rank_document

    write_document(rank_document(ranking))


@similarity.command()
@takes(SimilarityTrainRequest)
@QUIET
def train(request: SimilarityTrainRequest, quiet: bool) -> None:
    """Train an encoder on versions of pictures that people recognised, and versions that they did not.

    Needs the extra tune. The encoder is for "similarity compare --encoder", on other pictures than these.

    Example: privsieve similarity train labelled/ --out encoder.safetensors
    """
    from jobs.similarity.training import run_train

    trained = run_train(request, on_terminal(quiet))
    card = trained.card
    write_line(
        f"{number_of(card.num_triplets, 'triplet')} of {number_of(card.num_originals, 'original')}, {card.network}"
    )
    if trained.num_unused:
        write_line(f"not used: {number_of(trained.num_unused, 'file')}")
    write_line(f"in order: {card.in_order:.3f} of the triplets")
    if card.in_order_held_back is not None:
        held_back = number_of(trained.num_held_back, "held-back original")
        write_line(f"in order: {card.in_order_held_back:.3f} of those of {held_back}")
    write_line(f"encoder written to {request.out}")
