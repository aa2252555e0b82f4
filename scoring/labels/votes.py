"""Votes of four classes, from clearly private to clearly public.

Source: Zhao et al., "PrivacyAlert". Two classes are private and two public, so a vote also says whether the picture is
private.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError

VOTES = {"clearly private": 1.0, "private": 0.75, "public": 0.25, "clearly public": 0.0}
"""Class -> its step as a severity. PrivacyAlert counts from the public side, 1 - step; distances are the same."""

SHOWN_TO = {
    "clearly private": "must never be online",
    "private": "for me and people whom I choose",
    "public": "for everybody I know",
    "clearly public": "for anyone",
}
"""Class -> who may see such a picture."""

PRIVATE_VOTES = ("clearly private", "private")


def vote_of(text: str) -> str | None:
    """Return the class that a cell names, such as "Clearly_Private"; None if it names none."""
    plain = " ".join(text.replace("_", " ").replace("-", " ").lower().split())
    return plain if plain in VOTES else None


def vote_of_number(text: str) -> str:
    """Return the class of one of PrivacyAlert's own numbers, from "0", clearly private, to "1"; other text as it is."""
    try:
        step = 1 - float(text)
    except ValueError:
        return text
    return next((vote for vote, of_vote in VOTES.items() if of_vote == step), text)


def with_private_of_votes(labels: pa.Table, name: str) -> pa.Table:
    """Fill `private` where it is null and there is a vote. labels: with `private` and `vote`.

    LabelsError with the row if a vote is none of the four, or contradicts `private`.
    """
    votes = labels["vote"]
    if votes.null_count == labels.num_rows:
        return labels
    is_known = pc.is_in(votes, pa.array([*VOTES, None], pa.string()))
    if (row := pc.index(is_known, False).as_py()) >= 0:
        raise LabelsError(f'{name}, row {row + 1}: "vote" is none of {", ".join(VOTES)}; it may be null')
    side = pc.is_in(votes, pa.array(PRIVATE_VOTES)).cast(pa.int8())
    side = pc.if_else(pc.is_valid(votes), side, pa.scalar(None, pa.int8()))
    private = labels["private"]
    if (row := pc.index(pc.not_equal(side, private), True).as_py()) >= 0:
        raise LabelsError(f'{name}, row {row + 1}: "vote" and "private" contradict each other; correct one of them')
    index = labels.column_names.index("private")
    return labels.set_column(index, labels.schema.field(index), pc.coalesce(private, side))


def steps_of(votes: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Return the steps of `VOTES`, shape (rows,); NaN for null."""
    return np.array([np.nan if vote is None else VOTES[vote] for vote in votes.to_pylist()], np.float32)


def votes_of(steps: npt.NDArray[np.float32]) -> list[str | None]:
    """Invert `steps_of`."""
    names = {step: name for name, step in VOTES.items()}
    return [None if np.isnan(step) else names[float(step)] for step in steps]
