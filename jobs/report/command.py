"""The verb `report`: what a run found, as text, JSON, CSV, and one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import WholeRange
from jobs.console.terminal import write_cautions, write_json, write_line

if TYPE_CHECKING:
    from reports.report.results import Report


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        usual = parameter.default if isinstance(parameter.default, str) else "the usual meaning"
        raise click.BadParameter(f"it is empty; leave it out for {usual}", context, parameter)
    return value


@click.command()
@click.argument("run")
@click.option(
    "--by",
    default="category",
    show_default=True,
    callback=_not_empty,
    help="Column or SQL expression that groups the images.",
)
@click.option("--by-label", metavar="TEXT", help="What a group is called in headings, such as scene.")
@click.option(
    "--private",
    metavar="CONDITION",
    callback=_not_empty,
    help='SQL condition: what counts as private. By default "level IN (1, 2)"; for runs of the protocol binary '
    '"private = 1", of severity "holistic_score >= 0.514".',
)
@click.option(
    "--min-count",
    type=WholeRange(min=0),
    default=1,
    show_default=True,
    help="Leave out groups with fewer scored images.",
)
@click.option(
    "--top",
    type=WholeRange(min=1),
    default=15,
    show_default=True,
    help="How many of the highest and of the lowest groups to show.",
)
@click.option("--copies", is_flag=True, help="Also count pictures with the same perceptual hash once; takes memory.")
@click.option("--source-size", type=WholeRange(min=1), help="Images of the whole source, for a run of --sample.")
@click.option(
    "--category-sizes",
    metavar="FILE",
    help="CSV with the columns category and images: for the overall rate of a run of --sample --per-category.",
)
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page as well.",
)
@click.option("--title", metavar="TEXT", help="With --html: what the report is about.  [default: name of the source]")
@click.option("--no-images", is_flag=True, help="Do not name the most severe images.")
@click.option(
    "--gallery",
    "num_pictures",
    metavar="N",
    type=WholeRange(1, 20),
    help="With --html: show so many of the most severe images as small pictures, read from the source.",
)
@click.option("--blur/--clear", "is_blurred", default=True, show_default=True, help="How --gallery shows them.")
@hash_list_option("is neither named nor shown")
@click.option(
    "--digest-endpoint",
    metavar="URL",
    help="With --html: an OpenAI-compatible server that puts the counts of evidence into words.",
)
@click.option("--digest-model", metavar="NAME", help="The model to ask there.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="csv holds the groups; json holds everything.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=WholeRange(min=1),
    default=3600,
    show_default=True,
    help="Stop the report after so long; it is also stopped at 60 % of the free memory.",
)
def report(
    run: str,
    by: str,
    by_label: str | None,
    private: str | None,
    min_count: int,
    top: int,
    copies: bool,
    source_size: int | None,
    category_sizes: str | None,
    html_path: Path | None,
    title: str | None,
    no_images: bool,
    num_pictures: int | None,
    is_blurred: bool,
    hash_list: str | None,
    digest_endpoint: str | None,
    digest_model: str | None,
    output: str,
    timeout_s: int,
) -> None:
    """Report what the scan in RUN found: levels, attributes, and privacy rates per group.

    First come two sentences of findings, and whether they are of all images of the source, of a random sample, of the
    first ones, or of a scan that is not finished. Rates leave out quarantined images. The page names the most severe
    images; it holds no picture without --gallery.
    """
    from jobs.report.run import PageRequest, ReportRequest, run_report
    from jobs.runtime.feedback import on_terminal
    from scoring.sql.limits import limits_of_command

    for given, option in ((title, "--title"), (num_pictures, "--gallery"), (digest_endpoint, "--digest-endpoint")):
        if given and html_path is None:
            raise click.UsageError(f"{option} is for a page; give --html FILE as well")
    if num_pictures and no_images:
        raise click.UsageError("--gallery shows images that --no-images leaves out; give one of them")
    if bool(digest_endpoint) != bool(digest_model):
        raise click.UsageError("--digest-endpoint and --digest-model go together")
    page = None
    if html_path is not None:
        page = PageRequest(html_path, num_pictures or 0, not is_blurred, digest_endpoint, digest_model, title)
    request = ReportRequest(
        run,
        by,
        private,
        min_count,
        top,
        by_label=by_label,
        names_images=not no_images,
        finds_copies=copies,
        num_in_source=source_size,
        category_sizes=category_sizes,
        hash_list=hash_list,
        page=page,
        limits=limits_of_command(timeout_s),
    )
    result = run_report(request, on_terminal(quiet=True))
    _write(result.report, output)
    if output == "text":
        if result.report.severest_note and result.pages:
            write_line(f"most severe images {result.report.severest_note}")
        for path in result.pages:
            write_line(f"page written to {path}")


def _write(found: "Report", output: str) -> None:
    if output == "text":
        from jobs.console.report_text import write_report

        write_report(found)
    elif output == "json":
        from dataclasses import asdict

        from reports.report.accuracy import audit_cautions
        from reports.report.headline import headline_of
        from reports.report.sentences import findings

        first = {
            "cautions": found.cautions,
            "findings": findings(found),
            "headline": asdict(headline_of(found)),
            "audit_cautions": audit_cautions(found),
        }
        plain = asdict(found) | {"label_gaps": found.label_gaps.model_dump()}
        del plain["audited"]  # `corrected` has its rates, of the images that the report is of
        write_json(first | plain, indent=1)
    else:
        from jobs.console.tables import write_rows
        from reports.report.accuracy import audit_cautions
        from reports.report.group_rows import HEADS, group_rows

        write_cautions((*found.cautions, *audit_cautions(found)))
        write_rows(HEADS, group_rows(found), "csv")
