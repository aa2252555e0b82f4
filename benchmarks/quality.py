"""Writes a section of docs/measured/quality.md anew: how good the detectors are on the demo pictures, by their labels.

    python -m benchmarks.quality [--out docs/measured/quality.md]

Scans the pictures of the demo corpus with the detectors, in this process, and evaluates the run; about a minute.
"""

import shutil
import tarfile
import tempfile
import textwrap
from pathlib import Path

import click

import privsieve
from ingest import __version__
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from reports.evaluation.results import Evaluation
from reports.evaluation.words import notes, tables
from reports.report.opened import open_run
from reports.words import Table, number

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "jobs" / "demo"
LABELS = DEMO / "labels.csv"
PICTURES = (".jpg", ".png")

HEADING, NEXT = "## The engine `detectors` on the demo pictures\n", "## The engine `detectors` on other pictures\n"


def gather(corpus: Path, folder: Path) -> None:
    """The pictures of the shards and of the tree as files of one folder each."""
    shutil.copytree(corpus / "tree", folder)
    for shard in sorted((corpus / "shards").glob("*.tar")):
        with tarfile.open(shard) as tar:
            (folder / shard.stem).mkdir()
            for member in tar.getmembers():
                content = tar.extractfile(member)
                if content is not None and member.name.endswith(PICTURES):
                    (folder / shard.stem / Path(member.name).name).write_bytes(content.read())


def section(evaluation: Evaluation, protocol: str) -> str:
    """The part of the page that is made anew: what stands below HEADING and before NEXT."""
    private = evaluation.private
    assert private is not None
    text = (
        f"Version {__version__}, protocol `{protocol}`. {private.num_pictures} pictures of the bundled demo corpus, "
        "labelled by hand by one person (`jobs/demo/labels.csv`). So few pictures give wide intervals, and several "
        "attributes have no picture that shows them. A picture is private if an attribute of level 1 or 2 is 1. Rates "
        "of an attribute are of the pictures that were answered. The detectors do not judge some attributes, and "
        "others they can find but not rule out: of these, pictures without an answer that show it were missed."
    )
    lines = [textwrap.fill(text, 120), ""]
    for table in tables(evaluation):
        if table.heads[0] != "class":  # most of them have one or two pictures
            lines += [f"### {table.title}", "", *_markdown(table), ""]
    return "\n".join([*lines, *(f"{textwrap.fill(note, 120)}\n" for note in notes(evaluation))])


def _markdown(table: Table) -> list[str]:
    cells = [table.heads, ["---", *["---:"] * (len(table.heads) - 1)], *table.rows]
    return [f"| {' | '.join(row)} |" for row in cells]


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=ROOT / "docs" / "measured" / "quality.md", show_default=True
)
def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pictures, run = Path(folder) / "pictures", Path(folder) / "run"
        gather(DEMO / "corpus", pictures)
        privsieve.scan(pictures, run, engine="detectors", executor="inline")
        with open_run(str(run)) as opened:
            protocol = str(opened.record.engine["protocol"])
        evaluation = run_evaluate(EvaluateRequest(run=str(run), labels=str(LABELS)))
    before, _, rest = out.read_text(encoding="utf-8").partition(HEADING)
    after = rest.partition(NEXT)[2]
    out.write_text(f"{before}{HEADING}\n{section(evaluation, protocol)}\n{NEXT}{after}", encoding="utf-8")
    assert evaluation.private is not None
    click.echo(f"{out}: MCC {number(evaluation.private.mcc)} on {evaluation.private.num_pictures} pictures")


if __name__ == "__main__":
    main()
