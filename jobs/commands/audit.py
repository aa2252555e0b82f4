"""The verb `audit`: rates corrected for what the engine gets wrong, from a few hundred labels."""

from dataclasses import asdict

import click

from ingest.errors import number_of
from jobs.console.commands import Commands
from jobs.console.request_options import takes
from jobs.console.terminal import write_cautions, write_document, write_json, write_line, write_rows
from jobs.labelling.auditing import AuditApplyRequest, AuditSampleRequest, run_audit_apply, run_audit_sample
from jobs.runtime.progress import on_terminal
from reports.audit.results import as_table
from reports.audit.words import document, expectations


@click.group(cls=Commands)
def audit() -> None:
    """Correct the rates of a run by a few hundred labels.

    First "audit sample" draws pictures for people to label, then "audit apply" corrects the rates by their labels.
    """


@audit.command()
@takes(AuditSampleRequest)
def sample(request: AuditSampleRequest) -> None:
    """Draw pictures of RUN for people to label.

    Pictures about which the answers are unsure are drawn more often; how likely each was to be drawn is stored in
    RUN/audit/sample.parquet. Quarantined images are not drawn. How many pictures are drawn varies around --n by chance.

    Label in the order of the list: then a part of it is a random sample too. You may stop when an interval is as
    narrow as you need, but never because of the rate that it shows.

    To correct another run of the same corpus by the same labels, give it with --also, or give the same command again
    with --also and another --out; then "audit apply" it with the same labels.

    Example: privsieve audit sample my-run --n 400 --out labels.csv
    """
    run, out = request.run, request.out
    result = run_audit_sample(request, on_terminal(quiet=True))
    write_cautions(result.cautions)
    drawn, design = result.sample.table.num_rows, result.sample.design
    expected = f"{min(request.n, design.num_scored):,} expected, seed {request.seed}"
    write_line(f"drew {number_of(drawn, 'picture')} of {design.num_scored:,} scored images ({expected})")
    for url, count in result.num_in_others.items():
        write_line(f"{count:,} of them have a score in {url}, too, and correct its rates")
    if result.kept_as is not None:
        write_line(
            f"the earlier sample is kept as {result.kept_as}: labels of its pictures count only with it; to use them "
            "again, put it back as sample.parquet; corrected rates stay until audit apply replaces them"
        )
    if result.left_out:
        write_line(f"{result.left_out}; apply counts such pictures as without a label")
    for count, what in ((result.num_quarantined, "quarantined"), (result.num_screened, "screened-out")):
        if count:
            write_line(f"{number_of(count, f'{what} image')} cannot be drawn")
    write_line(f"private is: {design.private}")
    write_line(f"{number_of(result.num_pictures, 'row')} to fill in: {out} (1 yes, 0 no, empty if not judged)")
    if result.num_for_second_look:
        first = number_of(result.num_for_second_look, "picture")
        where = f": {result.second_list}" if result.second_list else " (the first of the list)"
        write_line(f"{first} for a second person, which shows how often labels are wrong{where}")
    for line in expectations(result.expected):
        write_line(line)
    if result.interface:
        write_line(f"labelling interface: {result.interface}")
        write_line("then: privsieve labels import label-studio EXPORTED.json --out labels.parquet")
        out = "labels.parquet"
    write_line(f"next: privsieve review {run} --queue audit --as NAME, to look at them in the browser")
    for each in (run, *request.also):
        write_line(f"  or: privsieve audit apply {each} {' '.join(filter(None, (out, result.second_list)))}")


@audit.command()
@takes(AuditApplyRequest)
@click.option("--format", "output", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
def apply(request: AuditApplyRequest, output: str) -> None:
    """Correct the rates of RUN by LABELS of the pictures that "audit sample" drew.

    LABELS is the file that was filled in, RUN/reviews, or any other labels of one or several people; give several files
    if each person has one. A picture without an answer to a question is left out of that question. If people differ,
    the majority counts; without one, intervals cover both answers. The rates are stored in RUN, where "report" and the
    view corrected_rates of "sql" find them.

    Example: privsieve audit apply my-run labels.csv
    """
    result = run_audit_apply(request)
    if output == "json":
        write_json(asdict(result), indent=1)
    elif output == "csv":
        write_cautions((*result.cautions, *result.notes))
        table = as_table(result)
        write_rows(table.column_names, [tuple(row.values()) for row in table.to_pylist()], "csv")
    else:
        write_document(document(result))
        write_line(f"next: privsieve report {request.run} --html report.html")
