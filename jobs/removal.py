"""A folder and all below it, gone."""

import shutil

from ingest.errors import StorageError
from ingest.retries import retried, store_errors
from ingest.storage import Place, reason_of


def remove_tree(folder: Place) -> None:
    """The folder is gone with all that lies in it, whether or not it was there. StorageError where it cannot be."""
    try:
        if folder.is_local:
            shutil.rmtree(folder.path)
        else:
            retried(lambda: folder.fs.rm(folder.path, recursive=True))
    except FileNotFoundError:
        pass
    except store_errors() as error:
        raise StorageError(f"cannot remove {folder.path}: {reason_of(error)}") from None
