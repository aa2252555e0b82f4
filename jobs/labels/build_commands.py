"""`labels build …`: lists of pictures for benchmarks like those of the papers, and conversations to tune on."""

import click

from ingest.errors import number_of
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line, write_table
from jobs.labels.request import BalancedRequest, BenchmarkRequest, DialoguesRequest, KeywordsRequest, VisprRequest
from jobs.runtime.progress import on_terminal
from reports.words import percent


@click.group()
def build() -> None:
    """List pictures for benchmarks like those of the papers, or write conversations. No picture is copied."""


@build.command("vispr")
@takes(VisprRequest)
@QUIET
def build_vispr(request: VisprRequest, quiet: bool) -> None:
    """Candidates of VISPR: pictures with labels of levels 1 and 2, and safe ones for levels 3 and 4.

    Test pictures are for evaluation, validation pictures for tuning. The level of a safe picture is known only once it
    is annotated: annotate the candidates, then draw with --like-paper --labels.
    """
    from jobs.labels.building import run_build_vispr

    result = run_build_vispr(request, on_terminal(quiet))
    for use, classes in result.num_found.items():
        write_line(f"candidates for {use}: " + ", ".join(f"{name} {count:,}" for name, count in classes.items()))
    write_line(f"{number_of(result.labels.num_rows, 'picture')} in {request.out}")
    for line in result.too_few:
        write_line(f"too few of {line}")


@build.command("privbench")
@takes(KeywordsRequest)
def build_privbench(request: KeywordsRequest) -> None:
    """Candidates by words in captions, for the eight private classes, public and hard public pictures.

    METADATA is Parquet, CSV or TSV with URLs and captions. A word only makes a candidate: people decide.
    """
    _build_by_keywords(request, "privbench")


@build.command("privacyalert")
@takes(KeywordsRequest)
def build_privacyalert(request: KeywordsRequest) -> None:
    """Candidates by words in captions, for the ten categories of PrivacyAlert.

    METADATA is Parquet, CSV or TSV with URLs and captions, or tags as text. A word only makes a candidate: people
    decide, and both sides occur in every category.
    """
    _build_by_keywords(request, "privacyalert")


def _build_by_keywords(request: KeywordsRequest, data_set: str) -> None:
    from jobs.labels.building import run_build_by_keywords

    result = run_build_by_keywords(request, data_set)
    rows = [
        [class_, word, f"{count:,}", percent(count / result.num_rows if result.num_rows else None)]
        for class_, words in result.hits.items()
        for word, count in words.items()
    ]
    write_table(["class", "keyword", "captions", "of all"], rows, {2, 3})
    write_line(
        f"{result.num_rows:,} rows; in {request.out}: " + ", ".join(f"{k} {n:,}" for k, n in result.num_chosen.items())
    )


@build.command("benchmark")
@takes(BenchmarkRequest)
def build_benchmark(request: BenchmarkRequest) -> None:
    """Draw PrivBench's numbers of pictures from candidates that people accepted, and write what is given away.

    Of a private class the pictures that people call private are accepted, of public and hard public ones those that
    they do not. The folder holds URLs, labels and a datasheet, and no picture.

    Example: privsieve labels build benchmark candidates.parquet --run run --accepted run/reviews --out benchmark
    """
    from jobs.labels.building import run_build_benchmark

    result = run_build_benchmark(request)
    rows = [[name, f"{num:,}", f"{result.num_drawn.get(name, 0):,}"] for name, num in result.num_accepted.items()]
    write_table(["class", "accepted", "drawn"], rows, {1, 2})
    write_line(f"in {request.out}: {', '.join(result.files)}")
    write_line(f"next: privsieve evaluate {request.run} --labels {request.out}/{result.files[0]}")


@build.command("balanced")
@takes(BalancedRequest)
def build_balanced(request: BalancedRequest) -> None:
    """All private pictures of LABELS, and as many random public ones, as BIV-Priv is drawn for evaluations.

    --public 3 takes three times as many, as PrivacyAlert does.

    Example: privsieve labels build balanced biv-priv.parquet --out drawn.parquet
    """
    from jobs.labels.building import run_build_balanced

    num_private, num_public = run_build_balanced(request)
    write_line(f"{number_of(num_private, 'private picture')} and {num_public:,} public ones in {request.out}")


@build.command("dialogues")
@takes(DialoguesRequest)
@QUIET
def build_dialogues(request: DialoguesRequest, quiet: bool) -> None:
    """Let a model write a conversation about each labelled picture of CORPUS, for tune-set --target dialogue.

    The model is given the picture, whether people call it private, and its class. What it writes is left out if it
    holds text that may be read in the picture, does not speak of privacy, or is no conversation. Without --yes the
    command only says what would be sent where, and what it would cost. The same command continues.

    Example: privsieve labels build dialogues photos/ --labels labels.csv --engine openai --endpoint URL --model NAME
    --out dialogues.jsonl
    """
    from jobs.labels.dialogues import run_build_dialogues

    result = run_build_dialogues(request, on_terminal(quiet))
    write_line(
        f"{number_of(result.num_pictures, 'labelled picture')}: {result.num_private:,} private, "
        f"{result.num_pictures - result.num_private:,} public; {result.num_done:,} asked about before, "
        f"{result.num_left:,} to ask about"
    )
    write_line(f"they go to {result.where}")
    write_line(
        f"about {result.num_prompt_tokens:,} tokens to read and {result.num_answer_tokens:,} to write"
        + ("" if result.cost is None else f", cost about {result.cost:,.2f}")
    )
    if not request.yes:
        write_line("nothing was sent; --yes sends the pictures")
        return
    reasons = "".join(f", {num:,} {reason}" for reason, num in result.left_out.items())
    write_line(f"{number_of(result.num_written, 'conversation')} in {request.out}{reasons}")
    if result.usage:
        write_line("tokens as reported: " + ", ".join(f"{kind} {num:,}" for kind, num in result.usage.items()))
    write_line(
        f"next: privsieve tune-set {request.source} --labels {request.labels} --target dialogue --dialogues "
        f"{request.out} --out SET"
    )
