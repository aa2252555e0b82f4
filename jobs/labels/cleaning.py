"""`labels clean`: which labels are probably wrong. They are listed for people to look at again; none is changed."""

from jobs.console.requests import refuse_existing
from jobs.labels.request import CleanRequest
from jobs.runtime.progress import SILENT, Feedback
from jobs.screen.looking import labelled_pictures
from jobs.screen.run import cache_of, encoder_of, modalities_of
from reports.screening.margins import SuspiciousLabels, suspicious_labels
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.screen.model import loaded_modalities

TO_CHECK = "to check"
"""Annotator of the list: it withholds the labels, so that people judge on their own."""

NOTE = (
    "Pictures whose labels may be wrong, by the area under the margin, the most suspicious first; without these labels."
)


def run_clean(request: CleanRequest, feedback: Feedback = SILENT) -> SuspiciousLabels:
    """List suspicious labels. Errors in one line; nothing is written then. LabelsError as of `suspicious_labels`."""
    refuse_existing(request.out)
    encoder = encoder_of(request.sees)
    modalities = loaded_modalities(modalities_of(request.sees), encoder, cache_of(request.look, encoder))
    labelled = labelled_pictures(request.look, modalities, feedback)
    lengths = {name: modality.length for name, modality in modalities.items()}
    result = suspicious_labels(labelled.pictures, lengths, request.max_share, request.percentile, request.seed)
    hashes = [label.sha256 for label in result.suspicious]
    table = to_labels({"sha256": hashes, "annotator": [TO_CHECK] * len(hashes)}, len(hashes))
    write_labels(table, request.out, LabelsOrigin("labels clean", None, len(hashes), {}, (NOTE,)))
    return result
