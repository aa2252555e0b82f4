"""The answer that more annotators gave than any other. A tie is no answer.

Answers have the shape (A annotators, …); NaN is no answer, and does not count.
"""

import numpy as np
import numpy.typing as npt

from scoring.labels.votes import PRIVATE_VOTES, VOTES

Floats = npt.NDArray[np.float32]

MIN_PRIVATE_STEP = min(VOTES[vote] for vote in PRIVATE_VOTES)


def most_common(answers: Floats) -> Floats:
    """Return the most common answer, shape (A, …) -> (…); NaN if two answers tie, or if there is none."""
    known = np.unique(answers[~np.isnan(answers)])
    if not known.size:
        return np.full(answers.shape[1:], np.nan, np.float32)
    counts = np.stack([(answers == answer).sum(axis=0) for answer in known])
    most = counts.max(axis=0)
    joined: Floats = known[counts.argmax(axis=0)].astype(np.float32)
    joined[((counts == most).sum(axis=0) > 1) | (most == 0)] = np.nan
    return joined


def majority_vote(private: Floats, vote: Floats) -> Floats:
    """Return the most common vote of the larger side, shapes (A, P) -> (P,); NaN if sides or votes tie.

    private: 0, 1 or NaN. vote: steps of `votes.VOTES` or NaN.
    """
    side = most_common(private)
    joined = most_common(np.where((vote >= MIN_PRIVATE_STEP) == (side == 1), vote, np.float32(np.nan)))
    joined[np.isnan(side)] = np.nan
    return joined


def yes_of_most(answers: Floats) -> Floats:
    """Return 1 where more than half of the answers are 1, else 0, shape (A, …) -> (…); NaN if there is none.

    A tie is 0. Source: the human study of Tsaprazlis et al., "Rethinking Visual Privacy".
    """
    num_given = (~np.isnan(answers)).sum(axis=0)
    joined: Floats = np.asarray(2 * (answers == 1).sum(axis=0) > num_given).astype(np.float32)
    joined[num_given == 0] = np.nan
    return joined


def most_common_text(texts: npt.NDArray[np.object_]) -> list[str | None]:
    """Return the most common text per picture, shape (A, P); None if two tie, or if there is none."""
    known = sorted({text for text in texts.ravel() if text is not None})
    number = {text: index for index, text in enumerate(known)} | {None: np.nan}
    answers = np.array([[number[text] for text in row] for row in texts], np.float32).reshape(texts.shape)
    return [None if np.isnan(index) else known[int(index)] for index in most_common(answers)]
