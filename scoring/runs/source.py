"""The source of a run. Apart from `record`, whose readers mostly ask the rows alone and need no reader of pictures."""

import shlex

from ingest.errors import SourceError
from ingest.formats import Source, open_source
from ingest.formats.shard import told_before
from ingest.sample import printable
from ingest.storage.place import place
from scoring.runs.record import RunRecord


def source_of(record: RunRecord) -> Source:
    """Open the source as the run was scanned. SourceError, also if it has moved; StorageError."""
    try:
        with told_before():
            return open_source(record.source, record.source_format, record.category, image_names=record.image_columns)
    except SourceError:
        if "://" in record.source or place(record.source).exists():
            raise
        where = printable(record.source)
        raise SourceError(
            f"the source of the run, {where}, is not there any more; if it has moved, put a link to its new place "
            f"there: ln -s NEW-PLACE {shlex.quote(where)}"
        ) from None
