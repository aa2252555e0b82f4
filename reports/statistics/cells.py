"""Cells: groups of rows about which a run says the same of one subject, such as "shows a face, P from 0.8 on".

A subject is the private decision or an attribute. Every scored row is in one cell of every subject. The sample is
drawn more densely from cells in which answers are often wrong, and errors are estimated cell by cell.
"""

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EDGES = (0.01, 0.05, 0.2, 0.5, 0.8)
"""Probabilities at which one cell ends and the next begins. More cells made the intervals no shorter (simulated), and
those of rare subjects too high."""

_MIDDLES = (0.004, 0.025, 0.1, 0.33, 0.65, 0.92)
NUM_BINS = len(_MIDDLES)

ABSENT, NEAR, NOT_JUDGED, UNCLEAR, PRESENT = range(2 * NUM_BINS, 2 * NUM_BINS + 5)
"""Cells of rows without a probability. NEAR: not private, but with attributes of level 3 or 4. UNCLEAR: 0.5, or a null
where the engine answers for other images. NOT_JUDGED: any other null. The first 6 cells are by probability, of rows
that are not answered "yes"; the next 6 of rows that are."""

NUM_CELLS = 2 * NUM_BINS + 5

IS_YES: Flags = np.isin(np.arange(NUM_CELLS), [*range(NUM_BINS, 2 * NUM_BINS), PRESENT])
"""The cells whose rows the run answers with 1."""


def guesses(num_images: Counts | Numbers) -> Numbers:
    """Guess the share of each cell in which the subject is truly there, before any label. Shape (NUM_CELLS,).

    The guess decides only where labels are placed, and which cells are alike: a wrong one widens intervals and biases
    nothing. num_images: of each cell of the run, shape (NUM_CELLS,).
    """
    rate = min(0.9, float(num_images[IS_YES].sum()) / max(1.0, float(num_images.sum())))
    missed = 0.2 * rate / (1 - rate)
    shares = np.empty(NUM_CELLS)
    shares[: 2 * NUM_BINS] = np.clip(np.tile(_MIDDLES, 2), max(0.1 * rate, 0.001), 0.9)
    shares[ABSENT] = np.clip(missed, 0.002, 0.3)
    shares[NEAR] = np.clip(3 * missed, 0.01, 0.4)
    shares[NOT_JUDGED] = np.clip(rate, 0.02, 0.5)
    shares[UNCLEAR], shares[PRESENT] = 0.5, 0.8
    return shares
