"""Groups of pictures that count as one in a bootstrap: copies and near duplicates."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.images.phash import near_duplicate_groups
from scoring.table import Col


def near_duplicates(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Shape (n,): the group of each row, from 0. rows: with the columns sha256 and phash.

    Rows without a perceptual hash (quarantined, or of an older version) share a group if their bytes are equal; a row
    without bytes has its own.
    """
    hashes, perceptual = rows[Col.SHA256].to_pylist(), rows[Col.PHASH].to_pylist()
    near = near_duplicate_groups(perceptual)
    names = [
        f"near {near[index]}" if perceptual[index] is not None else f"row {index}" if hash_ is None else hash_
        for index, hash_ in enumerate(hashes)
    ]
    _, groups = np.unique(names, return_inverse=True)
    return groups.astype(np.int64)
