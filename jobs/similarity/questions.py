"""Pairs of an original and a changed picture -> the questions of a study of people, drawn at random.

Source of the two set-ups: Sun et al., "Privacy Assessment on Reconstructed Images", 2023. People were shown a picture
and up to 20 classes with "none"; or a picture and an original, with pairs of different people or breeds mixed in.
"""

import hashlib
import math
import posixpath
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.errors import SourceError
from jobs.similarity.comparing import PicturePlace
from jobs.similarity.request import Asked

ALIKE = 0.05
"""Difference of the logarithms of height : width up to which two pictures have about the same shape."""


@dataclass(frozen=True)
class ShownOriginal:
    place: PicturePlace
    key: str
    sha256: str

    log_aspect: float
    """Logarithm of height / width: a candidate of another shape than the changed picture is easily ruled out."""

    @property
    def class_name(self) -> str:
        """The folder that holds it."""
        return posixpath.basename(posixpath.dirname(self.place.path))


@dataclass(frozen=True)
class Question:
    """One changed picture, and the originals among which a person chooses."""

    set_name: str

    original: int
    """Index of its own original."""

    candidates: tuple[int, ...]
    """Indices of originals, in the order in which they are shown; of `original` too, unless it is a decoy."""

    changed_sha256: str
    """As in `QUESTIONS_SCHEMA`."""

    @property
    def is_decoy(self) -> bool:
        return self.original not in self.candidates


def questions_of(
    pairs: Mapping[str, Mapping[int, str]],
    originals: Sequence[ShownOriginal],
    asked: Asked,
    num_candidates: int,
    decoy_share: float,
    seed: int,
) -> list[Question]:
    """Draw the questions, in a random order: one for each pair, and decoys for a share of all.

    pairs: set -> index of an original with a changed picture -> sha256 of that picture. num_candidates: 1 for pairs.
    SourceError if there are not enough other originals, or classes. The same arguments give the same questions.
    """
    if asked == "classes" and len({each.class_name for each in originals}) < 2:
        raise SourceError("--for classes needs originals in at least two folders, one for each class")
    wanted = [(set_name, *pair) for set_name, of_set in pairs.items() for pair in of_set.items()]
    num_decoys = round(decoy_share / (1 - decoy_share) * len(wanted))
    others = _Others(originals, asked)
    marks = [_mark(seed, "decoy", set_name, originals[original].key) for set_name, original, _ in wanted]
    decoys = [wanted[n] for n in sorted(range(len(wanted)), key=lambda n: marks[n])[:num_decoys]]

    def question(set_name: str, original: int, changed_sha256: str, is_decoy: bool) -> Question:
        own = originals[original]
        mark = _mark(seed, "decoy" if is_decoy else "true", set_name, own.key)
        random = np.random.default_rng(int.from_bytes(mark[:8]))
        # If there are few others, the number of candidates must not tell a decoy, which lacks the own original.
        count = max(1, min(num_candidates, others.num_of(own) + (not decoys)))
        chosen = others.drawn(own, count if is_decoy else count - 1, random)
        if not chosen and (is_decoy or num_candidates > 1):
            raise SourceError("there is no other original to choose from; give more originals, or a larger --sample")
        candidates = chosen if is_decoy else [*chosen, original]
        order = random.permutation(len(candidates))
        return Question(set_name, original, tuple(candidates[n] for n in order), changed_sha256)

    questions = [question(*each, is_decoy) for is_decoy, pairs_ in ((False, wanted), (True, decoys)) for each in pairs_]
    order = np.random.default_rng(seed).permutation(len(questions))
    return [questions[n] for n in order]


class _Others:
    """The originals among which other candidates are drawn: one of each class, or one of all that have the same bytes.

    Sorted by shape once, so that the work for a question does not grow with their number.
    """

    def __init__(self, originals: Sequence[ShownOriginal], asked: Asked):
        self._originals, self._is_of_classes = originals, asked == "classes"
        first, self._names = dict[str, int](), defaultdict[str, set[str]](set)
        for n, each in enumerate(originals):
            first.setdefault(self._name(each), n)
            self._names[each.sha256].add(self._name(each))
        self._by_shape = sorted(first.values(), key=lambda n: originals[n].log_aspect)
        self._log_aspects = [originals[n].log_aspect for n in self._by_shape]

    def _name(self, original: ShownOriginal) -> str:
        return original.class_name if self._is_of_classes else original.sha256

    def num_of(self, own: ShownOriginal) -> int:
        """Return how many there are for a question about an original: none of its bytes, nor of its class."""
        return len(self._by_shape) - len(self._names[own.sha256])

    def drawn(self, own: ShownOriginal, count: int, random: np.random.Generator) -> list[int]:
        """Return indices of originals, at most `count`: drawn among those of about the same shape as long as there are
        any, unless people see names of classes."""
        left, right = 0, len(self._by_shape)
        if not self._is_of_classes:
            left = bisect_left(self._log_aspects, own.log_aspect - ALIKE)
            right = bisect_right(self._log_aspects, own.log_aspect + ALIKE)
        num_alike, num_unlike = right - left, len(self._by_shape) - (right - left)
        own_names = self._names[own.sha256]
        most = count + len(own_names)  # the own ones may be among the drawn ones
        alike = left + random.choice(num_alike, min(most, num_alike), replace=False)
        unlike = random.choice(num_unlike, min(most, num_unlike), replace=False)
        unlike[unlike >= left] += num_alike
        indices = [self._by_shape[n] for n in (*alike, *unlike)]
        return [n for n in indices if self._name(self._originals[n]) not in own_names][:count]


def is_alike(a: ShownOriginal, b: ShownOriginal) -> bool:
    """Return whether two originals have about the same shape."""
    return math.isclose(a.log_aspect, b.log_aspect, abs_tol=ALIKE, rel_tol=0)


def _mark(seed: int, *parts: str) -> bytes:
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).digest()
