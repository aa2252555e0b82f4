"""Which labelled pictures become the training set, and which of them are held back for validation.

Every draw follows a rank that depends on the seed and the picture's hash alone. So it does not depend on the order of
the corpus, and a smaller draw is contained in a larger one of the same seed.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import LabelsError, did_you_mean
from scoring.tuning.targets import Label, Target, is_private, level_of

PUBLIC = "public"
"""Class of pictures that are not private."""


@dataclass(frozen=True)
class Candidate:
    """A labelled picture of the corpus."""

    shard: str
    index: int
    """Position in the shard."""

    key: str
    sha256: str
    phash: str | None
    group: int
    """Of near duplicates: pictures of one group share a split."""

    label: Label
    target: Target

    @property
    def stratum(self) -> str:
        """What a draw is stratified by: the class if the label has one, else private, public or unknown."""
        private = is_private(self.label)
        if private is False:
            return PUBLIC
        return self.label.class_name or {True: "private", None: "unknown"}[private]


@checked_dataclass(frozen=True)
class Draw:
    """How many pictures of which kind are drawn."""

    seed: int = 0

    per_class: int | None = None
    """Pictures of each private class; as many public ones as private ones in total. None: all."""

    num_pictures: int | None = None
    """Pictures in total, each class in proportion. None: all."""

    equal_levels: bool = False
    """Whether each severity level gets as many pictures as the smallest has."""

    leave_out: tuple[str, ...] = ()
    """Classes of which no picture is drawn."""

    validation_share: float = 0.1
    """Share of the near-duplicate groups that is held back, 0–0.5."""


def drawn(candidates: Sequence[Candidate], draw: Draw) -> list[Candidate]:
    """The pictures that `draw` asks for, in rank order. LabelsError if there are too few of a kind."""
    ranked = sorted(candidates, key=lambda c: _rank(draw.seed, c.sha256))
    strata = Counter(c.stratum for c in ranked)
    for name in draw.leave_out:
        if name not in strata:
            raise LabelsError(
                f'no picture has the class "{name}"{did_you_mean(name, strata)}; there are: {", ".join(sorted(strata))}'
            )
    ranked = [c for c in ranked if c.stratum not in draw.leave_out]
    if draw.equal_levels:
        ranked = _equal_levels(ranked)
    if draw.per_class is not None:
        ranked = _per_class(ranked, draw.per_class)
    if draw.num_pictures is not None:
        ranked = _in_proportion(ranked, draw.num_pictures)
    return ranked


def splits(chosen: Sequence[Candidate], draw: Draw) -> dict[str, list[Candidate]]:
    """train and validation, by groups of near duplicates; validation may be empty."""
    first: dict[int, str] = {}
    for one in chosen:
        first[one.group] = min(one.sha256, first.get(one.group, one.sha256))
    found: dict[str, list[Candidate]] = {"train": [], "validation": []}
    for one in chosen:
        is_held_back = _share(draw.seed, first[one.group]) < draw.validation_share
        found["validation" if is_held_back else "train"].append(one)
    return found


def _per_class(ranked: Sequence[Candidate], num: int) -> list[Candidate]:
    by_class = _by(ranked, (c.stratum for c in ranked))
    private = [name for name in by_class if name != PUBLIC]
    wanted = dict.fromkeys(private, num) | {PUBLIC: num * len(private)}
    return _taken(ranked, by_class, wanted, "--per-class")


def _equal_levels(ranked: Sequence[Candidate]) -> list[Candidate]:
    levels = [level_of(c.label) for c in ranked]
    if None in levels:
        raise LabelsError(
            f"{levels.count(None)} pictures have no level, since attributes were not judged; "
            "choose --levels natural, or label all 22 attributes"
        )
    by_level = _by(ranked, (f"level {level}" for level in levels))
    smallest = min(len(found) for found in by_level.values())
    return _taken(ranked, by_level, dict.fromkeys(by_level, smallest), "--levels")


def _in_proportion(ranked: Sequence[Candidate], num: int) -> list[Candidate]:
    """Largest remainders; of equal ones the class that comes first in the alphabet."""
    by_class = _by(ranked, (c.stratum for c in ranked))
    if num > len(ranked):
        raise LabelsError(f"--n {num}: there are {len(ranked)} pictures; give that or less")
    exact = {name: num * len(found) / len(ranked) for name, found in sorted(by_class.items())}
    wanted = {name: int(share) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: wanted[name] - exact[name])
    for name in rest[: num - sum(wanted.values())]:
        wanted[name] += 1
    return _taken(ranked, by_class, wanted, "--n")


def _taken(
    ranked: Sequence[Candidate], by_name: Mapping[str, Sequence[Candidate]], wanted: Mapping[str, int], option: str
) -> list[Candidate]:
    few = [
        f"{name} {len(by_name.get(name, ()))} of {num}"
        for name, num in wanted.items()
        if len(by_name.get(name, ())) < num
    ]
    if few:
        raise LabelsError(f"{option}: too few pictures: {', '.join(few)}; lower it, or label more")
    chosen = {id(c) for name, num in wanted.items() for c in by_name.get(name, ())[:num]}
    return [c for c in ranked if id(c) in chosen]


def _by(ranked: Sequence[Candidate], names: Iterable[str]) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = defaultdict(list)
    for candidate, name in zip(ranked, names, strict=True):
        found[name].append(candidate)
    return found


def _rank(seed: int, sha256: str) -> str:
    return hashlib.sha256(f"{seed} {sha256}".encode()).hexdigest()


def _share(seed: int, sha256: str) -> float:
    """A number in [0, 1) that depends on the arguments alone."""
    return int(_rank(seed, f"split {sha256}")[:12], 16) / 16**12
