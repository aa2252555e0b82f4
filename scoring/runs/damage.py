"""Damaged shards: a part of them, or all, could not be read, so an unknown number of their images has no row.

Each such part has a row in the score files, with a reason of `ingest.errors.SHARD_REASONS`. It is counted apart from
the rows of images everywhere, and where a run has one, nothing can be said of all images of its source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ingest.errors import SHARD_REASONS, number_of
from ingest.sample import printable
from scoring.runs.record import READABLE, WHOLE, RunRecord


@dataclass(frozen=True)
class Damage:
    """The part of a source that could not be read; nothing by default."""

    num_shards: int = 0
    """Number of shards that could not be read, in part or at all."""

    parts: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of parts, the most frequent first."""

    first_shard: str | None = None
    """First of these shards by name, printable; None if there is none."""

    @property
    def num_parts(self) -> int:
        """Number of rows of the run that are not about an image."""
        return sum(self.parts.values())

    @property
    def named(self) -> str:
        """The first shard, and how many there are if it is not the only one."""
        first = str(self.first_shard)
        return first if self.num_shards == 1 else f"{number_of(self.num_shards, 'shard')}, {first} first"

    @property
    def caution(self) -> str | None:
        """One sentence without a full stop; None if no shard is damaged."""
        if not self.num_shards:
            return None
        are, their = ("is", "its") if self.num_shards == 1 else ("are", "their")
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in self.parts.items())
        return (
            f"{number_of(self.num_shards, 'shard')} {are} damaged ({reasons}): an unknown number of {their} images "
            "was not seen"
        )


NO_DAMAGE = Damage()


def damage_of(counted: Iterable[tuple[str, Mapping[str, int]]]) -> Damage:
    """Add up damage. counted: shards, possibly repeated, with rows by reason; reasons of images are skipped."""
    parts, shards = Counter[str](), set[str]()
    for shard, reasons in counted:
        shard_parts = Counter({reason: number for reason, number in reasons.items() if reason in SHARD_REASONS})
        if shard_parts.total():
            parts += shard_parts
            shards.add(shard)
    ordered = dict(sorted(parts.items(), key=lambda item: (-item[1], item[0])))
    return Damage(len(shards), ordered, printable(min(shards)) if shards else None)


def scope_of(record: RunRecord, has_all: bool, damage: Damage) -> str:
    """Describe which images of its source a run covers. has_all: whether it has all that it could choose from."""
    if not record.is_whole and not has_all:
        return record.scope
    return READABLE if damage.num_parts else WHOLE


def num_of_images(reasons: Mapping[str, int]) -> dict[str, int]:
    """Drop the reasons that are about a part of a shard; the most frequent first."""
    images = {reason: number for reason, number in reasons.items() if reason not in SHARD_REASONS}
    return dict(sorted(images.items(), key=lambda item: (-item[1], item[0])))
