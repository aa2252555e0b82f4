"""The verb `labels`: what people, benchmarks and models say about pictures, as one table."""

import click

from ingest.errors import PrivsieveError, number_of
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, TEXT_OR_JSON, Names, takes
from jobs.console.terminal import answered_yes, write_document, write_line, write_table, wrote_json
from jobs.labelling.building import (
    BenchmarkRequest,
    CleanRequest,
    KeywordsRequest,
    VisprRequest,
    run_build_benchmark,
    run_build_by_keywords,
    run_build_vispr,
    run_clean,
)
from jobs.labelling.dialogues import DialoguesRequest, run_build_dialogues
from jobs.labelling.labels import (
    AgreementRequest,
    BalancedRequest,
    ConsensusRequest,
    ExportRequest,
    ImportRequest,
    run_agreement,
    run_build_balanced,
    run_consensus,
    run_export,
    run_import,
)
from jobs.labelling.same_tags import SameTagsRequest, run_same_tags
from jobs.runtime.progress import on_terminal
from reports.evaluation.words import FEW_NOTE, interval_cell
from reports.labels.agreement import Agreement
from reports.labels.same_tags import document
from reports.words import number, percent
from scoring.taxonomy import QUESTIONS, PlacingQuestion, level_of_answers, place_in_words

MAX_SHOWN = 12
"""Limit on the unmapped labels that are printed on one line; the footer of the file has them all."""


@click.group(cls=Commands)
def labels() -> None:
    """Import, join, compare and export labels: what people, benchmarks and models say about pictures."""


@labels.command("import")
@takes(ImportRequest)
@QUIET
def import_(request: ImportRequest, quiet: bool) -> None:
    """Make a labels file from the data set NAME below ROOT.

    NAME is vispr, privacyalert, privacyalert-curated, privbench (also PrivBench-H and PrivTune), biv-priv, cprt-bench,
    places365, csv or label-studio. ROOT is its folder, or for csv and label-studio its file. Pictures that are there
    are hashed; the others are rows without sha256. privsieve help labels shows the layouts.

    Example: privsieve labels import privbench PrivBench --out labels.parquet
    """
    result = run_import(request, on_terminal(quiet))
    origin = result.origin
    num_pictures, num_rows = result.num_listed, result.labels.num_rows
    write_line(
        f"{number_of(num_pictures, 'labelled picture')}: {number_of(num_rows, 'row')} in {request.out}, "
        f"{result.labels.num_rows - result.num_missing} with sha256"
    )
    if origin.unmapped:
        common = sorted(origin.unmapped.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{label} {count}" for label, count in common[:MAX_SHOWN])
        more = f", and {len(common) - MAX_SHOWN} more" if len(common) > MAX_SHOWN else ""
        write_line(f"labels that fit no attribute: {shown}{more}")
    for note in origin.notes:
        write_line(f"note: {note}")


@labels.command()
@takes(ConsensusRequest)
def consensus(request: ConsensusRequest) -> None:
    """Join what several annotators say into one label per picture.

    Inputs are labels files and runs. Pictures are joined by sha256, or by key where one has none. Of two annotators an
    attribute is 1 only if both say 1; it is 0.5 if they differ, and null if either did not judge it. `private`,
    `vote` and `class` are null if they differ. More annotators are weighed by how often each is right (Dawid-Skene), or
    each has one vote (--method majority): an answer that ties with another one is null.

    Example: privsieve labels consensus run-a run-b --out labels.parquet
    """
    result = run_consensus(request, on_terminal(quiet=True))
    num_rows = result.labels.num_rows
    write_line(f"{number_of(num_rows, 'picture')} in {request.out}, {result.num_shared} with a row of every annotator")
    write_line(f"method {result.method}, {len(result.annotators)} annotators: {', '.join(result.annotators)}")
    for what, counts in (("values of attributes", result.num_values), ("private", result.num_private)):
        write_line(f"{what}: " + ", ".join(f"{count:,} are {value}" for value, count in counts.items() if count))
    for name, share in result.accuracy.items():
        write_line(f"estimated to be right: {name} {percent(share)}")


@labels.command()
@takes(AgreementRequest)
# "table" is an earlier name of "text".
@click.option("--format", "output", type=click.Choice(["text", "json", "table"]), default="text", show_default=True)
def agreement(request: AgreementRequest, output: str) -> None:
    """Show how far annotators agree: per attribute, level, private and class.

    by a pair: pictures that both of two annotators judged. identical: pictures on which all agree. same: pairs of
    answers that are the same. Cohen's kappa is the mean over pairs of annotators; Fleiss' kappa and Krippendorff's
    alpha are of all together; ordinal alpha counts a larger difference more. 95 %: interval of the figure before it. A
    dash: not defined, as where all answers are the same. Then the pairwise agreement of PrivacyAlert: of all pictures,
    of those with each class by majority, and of each category (column `class`).

    Example: privsieve labels agreement run-a run-b people.parquet
    """
    result = run_agreement(request, on_terminal(quiet=True))
    if wrote_json(result, output):
        return
    if result.checks is not None:
        for name, num_asked in result.checks.num_asked.items():
            ending = ": dropped" if name in result.checks.dropped else ""
            if name in result.checks.reversed:
                ending += "; the scores run the other way: 1 is the most private, so give 1 - score"
            write_line(f"attention checks: {name} {result.checks.num_right[name]} of {num_asked} right{ending}")
        if more := sorted(set(result.checks.with_a_wrong_answer) - set(result.checks.dropped)):
            write_line(f"PrivacyAlert drops everybody who fails any check (--min-attention 1): also {', '.join(more)}")
    write_line(f"{number_of(len(result.annotators), 'annotator')}: {', '.join(result.annotators)}")
    write_line(f"{number_of(result.num_pictures, 'picture')} with rows of at least two")
    heads = ["", "items", "by a pair", "identical", "same", "Cohen", "95 %", "Fleiss", "alpha", "95 %", "ordinal alpha"]
    write_table(heads, [_agreement_cells(row) for row in result.rows], set(range(1, len(heads))))
    if any(interval.is_few for row in result.rows for interval in row.intervals.values()):
        write_line(FEW_NOTE)
    if chance := [f"{row.name} ({percent(row.most_common)})" for row in result.rows if row.is_mostly_chance]:
        write_line(
            f"nearly all answers are the same one: {', '.join(chance)}. Chance alone then makes nearly every pair "
            "agree, so kappa and alpha are low or not defined although most pairs agree; read the share of pairs that "
            "are the same."
        )
    if result.pairwise.mean is not None:
        bands = ", ".join(f"{name} {count:,}" for name, count in result.pairwise.bands.items())
        write_line(f"pairwise agreement of {result.pairwise.of}: {result.pairwise.mean:.3f} ({bands})")
    if groups := result.pairwise.groups:
        rows = [
            [group.category or "all", group.majority or "all", f"{group.num_items:,}", f"{group.mean:.3f}", group.band]
            for group in groups
        ]
        write_table(["category", "majority", "pictures", "pairwise agreement", "band"], rows, {2, 3})
    if result.prevalences:
        rows = [
            [
                *(row.name, row.annotator, f"{row.num_pictures:,}"),
                *(percent(row.share), percent(row.share_of_people), _points(row.difference)),
                f"{_points(row.low)} to {_points(row.high)}",
            ]
            for row in result.prevalences
        ]
        write_table(["", "annotator", "pictures", "finds it", "people", "points more", "95 %"], rows, {2, 3, 4, 5, 6})


@labels.command()
@click.argument("what", default="it")
@click.option("--answers", type=Names(), help="yes or no to each question in order, such as no,no,yes. [default: ask]")
def place(what: str, answers: tuple[str, ...] | None) -> None:
    """Find the level of the taxonomy for WHAT, such as "passport number", by four questions.

    The first question that is answered yes decides.

    Example: privsieve labels place "library card number" --answers no,yes
    """
    if answers is not None:
        level = level_of_answers(iter(_as_yes_or_no(answers, len(QUESTIONS))))
    else:
        level = level_of_answers(_answered(question) for question in QUESTIONS)
    write_line(f"{what} belongs to {place_in_words(level)}")


def _answered(question: PlacingQuestion) -> bool:
    write_line(f"Yes, for example: {', '.join(question.worked_cases)}.")
    return answered_yes(question.text)


def _as_yes_or_no(answers: tuple[str, ...], num_questions: int) -> list[bool]:
    """Return the answers. PrivsieveError unless they decide: up to the first yes, or no to all."""
    wrong = [answer for answer in answers if answer not in ("yes", "no")]
    decides = "yes" in answers or len(answers) == num_questions
    if wrong or not decides or len(answers) > num_questions:
        raise PrivsieveError(
            f"--answers takes yes or no to each of the {num_questions} questions in order, up to the first yes, such "
            "as no,no,yes"
        )
    return [answer == "yes" for answer in answers]


@labels.command()
@takes(CleanRequest)
@TEXT_OR_JSON
@QUIET
def clean(request: CleanRequest, output: str, quiet: bool) -> None:
    """List the labels of CORPUS that are probably wrong, by the area under the margin.

    A small model learns the labels from what is seen in the pictures; wrong ones are hard to learn. As a self-test some
    labels are turned over on purpose: the table says how many of them are found. The list names pictures without their
    labels, for people to judge again. No label is changed.

    Example: privsieve labels clean photos/ --labels labels.csv --out suspicious.parquet
    """
    result = run_clean(request, on_terminal(quiet))
    if wrote_json(result, output):
        return
    test = result.test
    write_line(
        f"self-test: {test.num_planted:,} labels turned over on purpose; of as many with the smallest areas "
        f"{percent(test.precision)} were such ones (by chance {percent(test.chance)})"
    )
    heads = ["percentile", "suspicious", "of these turned over", "of all turned over"]
    rows = [
        [f"{each.percentile:g}", *map(percent, (each.share, each.precision, each.recall))] for each in test.percentiles
    ]
    write_table(heads, rows, {0, 1, 2, 3})
    if result.num_undecided:
        write_line(f"{number_of(result.num_undecided, 'picture')} left out: people do not agree on the label")
    num_all = len(result.ranking)
    limited = f", cut to --max-share {request.max_share:g}" if result.num_suspicious < result.num_below else ""
    write_line(
        f"{result.num_suspicious:,} of {number_of(num_all, 'label')} are suspicious (percentile {result.percentile:g}"
        f"{limited}): {request.out}, the most suspicious first"
    )
    write_line(f"next: privsieve review RUN --queue {request.out}, or privsieve tune-set … --drop-list {request.out}")


@labels.command("same-tags")
@takes(SameTagsRequest)
@TEXT_OR_JSON
@QUIET
def same_tags(request: SameTagsRequest, output: str, quiet: bool) -> None:
    """Compare the labels of pictures of CORPUS with the same tags, which are the words of the caption in any order.

    Example: privsieve labels same-tags photos/ --labels votes.parquet --out distinct.parquet
    """
    result = run_same_tags(request, on_terminal(quiet))
    if not wrote_json(result, output):
        write_document(document(result, request.out))


@labels.command()
@takes(ExportRequest)
def export(request: ExportRequest) -> None:
    """Write labels or the answers of a run for people to correct.

    label-studio makes tasks with the labels filled in, and also the labelling interface (.xml) to paste into the
    project. `labels import label-studio` and `labels import csv` read the result.

    Example: privsieve labels export my-run --format label-studio --out tasks.json
    """
    result = run_export(request, on_terminal(quiet=True))
    if result.left_out:
        write_line(result.left_out)
    write_line(f"{number_of(result.labels.num_rows, 'row')} in {request.out}")
    if result.interface:
        write_line(f"labelling interface: {result.interface}")
    corrected = "EXPORTED.json" if result.interface else request.out
    write_line(f"next: privsieve labels import {request.format} {corrected} --out labels.parquet")


def _points(difference: float) -> str:
    return number(100 * difference, "+.1f")


def _agreement_cells(row: Agreement) -> list[str]:
    fewest, most = row.fewest_judged_by_pair, row.most_judged_by_pair
    of_cohen, of_alpha = (interval_cell(row.intervals.get(name)) for name in ("cohen", "alpha_nominal"))
    return [
        row.name,
        f"{row.num_items:,}",
        f"{most:,}" if fewest == most else f"{fewest:,}–{most:,}",
        *map(percent, (row.identical, row.percent)),
        *(number(row.cohen), of_cohen, number(row.fleiss)),
        *(number(row.alpha_nominal), of_alpha, number(row.alpha_ordinal)),
    ]


@labels.group(cls=Commands)
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

    METADATA is Parquet, CSV or TSV with URLs and captions, or tags. Words make candidates of both sides: people decide.
    """
    _build_by_keywords(request, "privacyalert")


def _build_by_keywords(request: KeywordsRequest, data_set: str) -> None:
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
    write_line(f"per conversation (mean ± standard deviation): {result.shape_in_words}")
    if result.usage:
        write_line("tokens as reported: " + ", ".join(f"{kind} {num:,}" for kind, num in result.usage.items()))
    write_line(
        f"next: privsieve tune-set {request.source} --labels {request.labels} --target dialogue --dialogues "
        f"{request.out} --out SET"
    )
