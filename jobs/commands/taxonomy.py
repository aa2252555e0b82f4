"""The verb `taxonomy`: bands of the severity score for a taxonomy of one's own."""

from dataclasses import dataclass
from typing import Annotated

import click
import duckdb
import numpy as np
import yaml

from ingest.errors import LabelsError
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from jobs.console.commands import Commands
from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.requests import Option, Seed, Url, checked_request, refuse_existing
from jobs.console.terminal import write_line, write_table, wrote_json
from reports.calibration.bands import BandsFit, fitted_bands
from reports.words import percent
from scoring.labels.table import labels_sha256, values_of_other_taxonomy
from scoring.runs.audit_files import SAMPLE_SCHEMA
from scoring.table import SCHEMA
from scoring.taxonomy import KEYS, TAXONOMY_VARIABLE, fitted_version, given_taxonomy


@checked_request
class TaxonomyRequest:
    labels: Annotated[Url, Option(argument="LABELS")]
    """Labels as Parquet or CSV, one row per picture, with a column for each attribute of the taxonomy."""

    taxonomy: Annotated[Url, Option(metavar="FILE")]
    """The taxonomy, written like scoring/taxonomy.yaml with a version of its own; bands in it are replaced."""

    out: Annotated[Url, Option(metavar="FILE.yaml")]
    """File to write: the taxonomy with its bands."""

    seed: Seed = 0
    """Seed of the fits."""


_COMPUTED = ("group_name", "is_private", "is_quarantined", "is_screened", "num_images")
"""Columns that the queries of reports compute from rows."""


@dataclass(frozen=True)
class TaxonomyResult:
    version: str
    """The given version, and the beginning of a hash of the fitted taxonomy."""

    fit: BandsFit


def run_taxonomy_fit(request: TaxonomyRequest) -> TaxonomyResult:
    """Fit the bands and write the taxonomy. LabelsError if the taxonomy or the labels are wrong, or if the labels give
    no stable bands; then nothing is written."""
    refuse_existing(request.out)
    taxonomy = given_taxonomy(request.taxonomy)
    reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    words = duckdb.execute(reserved).fetchall()
    columns = {*SCHEMA.names, *SAMPLE_SCHEMA.names, *_COMPUTED} - set(KEYS)
    if taken := sorted(set(taxonomy.attributes) & (columns | {word for (word,) in words})):
        raise LabelsError(
            f'{request.taxonomy}: "{taken[0]}" is another column of a row or a word of SQL; rename the attribute'
        )
    values = values_of_other_taxonomy(request.labels, list(taxonomy.attributes))
    fit = fitted_bands(values.astype(np.float64), taxonomy, request.seed)
    content = yaml.safe_load(given_content(place(request.taxonomy), request.taxonomy))
    for level in fit.levels:
        content["levels"][level.level]["score"] = [round(level.lower, 3), round(level.upper, 3)]
    content["version"] = fitted_version(content, taxonomy.version)
    head = (
        f"# Bands by privsieve taxonomy fit from labels {labels_sha256(request.labels)}, seed {request.seed}.\n"
        f"# ε {fit.epsilon:.6f}: the median squared distance to the nearest other combination of attributes.\n"
        "# Level m of n: (n − m)/(n − 1). No combination is its own neighbour.\n"
    )
    place(request.out).write((head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)).encode())
    return TaxonomyResult(content["version"], fit)


@click.group(cls=Commands)
def taxonomy() -> None:
    """Fit the bands of another taxonomy on labels."""


@taxonomy.command()
@takes(TaxonomyRequest)
@TEXT_OR_JSON
def fit(request: TaxonomyRequest, output: str) -> None:
    """Find the weights and the bands of the severity score for the taxonomy of FILE.

    Weights follow from the number of attributes per level, bands from LABELS. Bands that are degenerate, or that move
    from draw to draw of the labels, are refused.

    Example: privsieve taxonomy fit labels.parquet --taxonomy mine.yaml --out fitted.yaml
    """

    result = run_taxonomy_fit(request)
    if wrote_json(result, output):
        return
    rows = [
        [
            *(f"{each:,}" for each in (level.level, level.weight, level.num_pictures, level.num_combinations)),
            f"{level.lower:.3f} to {level.upper:.3f}",
            "set to 0" if level.lower_sd is None else f"{level.lower_sd:.3f}",
        ]
        for level in result.fit.levels
    ]
    write_table(["level", "weight", "pictures", "combinations", "band", "sd of its lower edge"], rows, range(6))
    of = result.fit
    write_line(
        f"{percent(of.nearest)} of the pictures are nearest to the centre of their level; loss {of.first_loss:.3f} → "
        f"{of.last_loss:.3f}; ε {of.epsilon:.4f}"
    )
    if of.num_empty or of.num_unjudged:
        write_line(f"left out: {of.num_empty:,} pictures without an attribute, {of.num_unjudged:,} not judged in full")
    write_line(f"taxonomy {result.version} in {request.out}; {TAXONOMY_VARIABLE}={request.out} scans with it")
