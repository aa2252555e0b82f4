"""Writes docs/quality.md: how good the engines are on the demo pictures, by the labels that lie beside these.

    python -m tests.benchmarks.quality [--out docs/quality.md]

Scans the pictures of the demo corpus with the detectors, in this process, and evaluates the run; about a minute.
"""

import shutil
import tarfile
import tempfile
from pathlib import Path

import click

import privsieve
from ingest import __version__
from jobs.evaluating.run import EvaluateRequest, run_evaluate
from reports.evaluation.results import Evaluation
from reports.evaluation.tables import Table, number, tables
from reports.opened import open_run

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "jobs" / "demo"
LABELS = DEMO / "labels.csv"
PICTURES = (".jpg", ".png")


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


def page(evaluation: Evaluation, protocol: str) -> str:
    """The Markdown of docs/quality.md."""
    private = evaluation.private
    assert private is not None
    lines = [
        "# Quality",
        "",
        "How good the answers of the shipped engines and protocols are, as far as that was measured. This page is made "
        "by `python -m tests.benchmarks.quality`; [evaluation.md](evaluation.md) explains the metrics.",
        "",
        "## What was not measured",
        "",
        "- **The vision-language protocols** (`slots`, `two-pass`, `severity`, `binary`): no model with real weights "
        "was run on labelled pictures, so they have no table. Measure yours on your pictures: `privsieve evaluate`.",
        "- **The detectors on pictures that nobody looked at**: their rules and thresholds were tuned on the pictures "
        "below. On other pictures expect lower figures; [limits.md](limits.md) has some.",
        "",
        "## The engine `detectors` on the demo pictures",
        "",
        f"Version {__version__}, protocol `{protocol}`. {private.num_pictures} pictures of the bundled demo corpus, "
        "labelled by hand by one person (`jobs/demo/labels.csv`). So few pictures give wide intervals, and several "
        "attributes have no picture that shows them.",
        "",
        "- A picture is private if an attribute of level 1 or 2 is 1.",
        "- Rates of an attribute are of the pictures that were answered. The detectors do not judge some attributes, "
        "and others they can find but not rule out: of these, pictures without an answer that show it were missed.",
        "- An interval without width means that the sample holds no error, not that there are none: with n right "
        "answers of n, a share of errors of 3 / n is still compatible.",
        "",
    ]
    for table in tables(evaluation):
        lines += [f"### {table.title}", "", *_markdown(table), ""]
    lines += [f"{note}\n" for note in evaluation.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown(table: Table) -> list[str]:
    cells = [table.heads, ["---", *["---:"] * (len(table.heads) - 1)], *table.rows]
    return [f"| {' | '.join(row)} |" for row in cells]


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs" / "quality.md", show_default=True)
def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pictures, run = Path(folder) / "pictures", Path(folder) / "run"
        gather(DEMO / "corpus", pictures)
        privsieve.scan(pictures, run, engine="detectors", executor="inline")
        with open_run(str(run)) as opened:
            protocol = str(opened.record.engine["protocol"])
        evaluation = run_evaluate(EvaluateRequest(run_url=str(run), labels_url=str(LABELS), by="class"))
    out.write_text(page(evaluation, protocol), encoding="utf-8")
    assert evaluation.private is not None
    click.echo(f"{out}: MCC {number(evaluation.private.mcc)} on {evaluation.private.num_pictures} pictures")


if __name__ == "__main__":
    main()
