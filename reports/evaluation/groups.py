"""Groups of pictures that count as one in a bootstrap: copies and near duplicates."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def near_duplicates(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Shape (n,): the group of each row, from 0. Rows of equal bytes share one; a row without bytes has its own."""
    hashes = rows["sha256"].to_pylist()
    names = [f"row {place}" if hash_ is None else hash_ for place, hash_ in enumerate(hashes)]
    _, groups = np.unique(names, return_inverse=True)
    return groups.astype(np.int64)
