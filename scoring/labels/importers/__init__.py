"""Importers of labelled data sets, one module each, in the layouts in which these are published.

May import: `ingest`, `scoring.labels`.
Start at: `scoring/labels/labelled.py` for the interface of a module.
To add one: a module with `MAPPING`, `LICENCE`, `NOTES` and `pictures`, named below and in docs/labels.md.
"""

from ingest.errors import LabelsError, did_you_mean
from scoring.labels.importers import (
    biv_priv,
    label_studio,
    places365,
    privacyalert,
    privacyalert_curated,
    privbench,
    vispr,
)
from scoring.labels.importers.csv_file import CsvFile
from scoring.labels.labelled import Importer

IMPORTERS: dict[str, Importer] = {
    "vispr": vispr,
    "privacyalert": privacyalert,
    "privacyalert-curated": privacyalert_curated,
    "privbench": privbench,
    "biv-priv": biv_priv,
    "places365": places365,
    "csv": CsvFile(),
    "label-studio": label_studio,
}


def importer_of(name: str) -> Importer:
    """Return the importer of this name. LabelsError if there is none."""
    if name not in IMPORTERS:
        raise LabelsError(f'no importer "{name}"{did_you_mean(name, IMPORTERS)}; there are: {", ".join(IMPORTERS)}')
    return IMPORTERS[name]
