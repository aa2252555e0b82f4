"""`labels import`: a labelled data set becomes one labels file."""

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.labels.request import ImportRequest
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.output_file import refuse_existing
from scoring.labels.contradictions import contradictions
from scoring.labels.importers import importer_of
from scoring.labels.importers.csv_file import CsvFile
from scoring.labels.importing import Imported, import_labels
from scoring.labels.mapping import load_mapping
from scoring.labels.table import write_labels


def run_import(request: ImportRequest, feedback: Feedback = SILENT) -> Imported:
    """Nothing is written if anything is wrong. LabelsError in one line; StorageError if `out` cannot be written."""
    refuse_existing(request.out)
    importer = importer_of(request.name)
    if request.ignore_columns:
        if not isinstance(importer, CsvFile):
            raise LabelsError(f"--ignore-columns is for csv, not for {request.name}; leave it out")
        importer = CsvFile(ignores_columns=True)
    name = request.mapping or importer.MAPPING
    mapping = load_mapping(name) if name else None
    root = place(request.root)
    if not root.exists():
        raise LabelsError(f"{request.root} does not exist; give the folder of the data set, or its file")
    with feedback.meter("labels", None) as meter:

        def advance(_: int, num_all: int) -> None:
            meter.expect(num_all)
            meter.advance(1)

        imported = import_labels(
            request.name,
            importer,
            root,
            mapping,
            split=request.split,
            annotator=request.annotator,
            advance=advance,
        )
    write_labels(imported.labels, request.out, imported.origin)
    if caution := contradictions(imported.labels):  # not in the footer: commands that read the file count again
        feedback.notice(f"caution: {caution}")
    return imported
