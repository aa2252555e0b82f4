"""How a release differs from what was scanned: the shares of categories, and of pictures with a caption, also by
category."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.sample import printable
from scoring.policies.policy import DAMAGED_SHARD, HASH_LIST, NOT_COMPARED
from scoring.table import Col

COLUMNS = (Col.CATEGORY, Col.CAPTION_KINDS)

MAX_CATEGORIES = 1000
"""Categories that are counted one by one; those with fewer images are added up."""

MAX_SHOWN = 3
OTHERS = "(other)"

_NO_IMAGES = [DAMAGED_SHARD, HASH_LIST, NOT_COMPARED]
"""Rules for rows that are no images, or of which nothing may be said."""


@dataclass
class Shift:
    """Counts before and after a filter, over some shards."""

    before: Counter[str] = field(default_factory=Counter)
    """Category -> scanned images; those without a category are left out."""

    after: Counter[str] = field(default_factory=Counter)
    """Category -> images that are kept, flagged or redacted."""

    captions: Counter[str] = field(default_factory=Counter)
    """`before`, `after`: images with a caption. `all_before`, `all_after`: all images."""

    captioned_before: Counter[str] = field(default_factory=Counter)
    """Category -> scanned images with a caption."""

    captioned_after: Counter[str] = field(default_factory=Counter)

    def add(self, facts: pa.Table, decisions: pa.Table) -> None:
        """Count rows. facts: of `COLUMNS`, as many rows as decisions."""
        facts = facts.append_column("is_left", pc.not_equal(decisions["action"], "drop"))
        facts = facts.filter(pc.invert(pc.is_in(decisions["rule"], pa.array(_NO_IMAGES))))
        for of_rows, counts, captioned, when in (
            (facts, self.before, self.captioned_before, "before"),
            (facts.filter(facts["is_left"]), self.after, self.captioned_after, "after"),
        ):
            summed = of_rows.group_by(Col.CATEGORY).aggregate([([], "count_all"), (Col.CAPTION_KINDS, "count")])
            groups = [group for group in summed.to_pylist() if group[Col.CATEGORY]]
            counts.update({group[Col.CATEGORY]: group["count_all"] for group in groups})
            captioned.update({group[Col.CATEGORY]: group[f"{Col.CAPTION_KINDS}_count"] for group in groups})
            self.captions[when] += of_rows.num_rows - of_rows[Col.CAPTION_KINDS].null_count
            self.captions[f"all_{when}"] += of_rows.num_rows

    @property
    def counts(self) -> tuple[Counter[str], ...]:
        """All counters, in the order of the fields."""
        return self.before, self.after, self.captions, self.captioned_before, self.captioned_after

    def update(self, other: "Shift") -> None:
        for own, more in zip(self.counts, other.counts, strict=True):
            own.update(more)

    def as_json(self) -> dict[str, Any]:
        """Return what `release.json` says. Parts of which the source says nothing are null."""
        names = [category for category, _ in self.before.most_common(MAX_CATEGORIES)]
        categories = self._of_categories(names, self.before, self.after)
        captioned = self._of_categories(names, self.captioned_before, self.captioned_after)
        captions = {name: self.captions[name] for name in ("before", "all_before", "after", "all_after")}
        return {
            "categories": categories or None,
            "total_variation": self._total_variation(),
            "captions": captions if self.captions["before"] else None,
            "captions_by_category": captioned if self.captioned_before.total() else None,
        }

    def _of_categories(self, names: list[str], before: Counter[str], after: Counter[str]) -> list[list[Any]]:
        """Return name, count before and count after of each category; the other categories come last, added up."""
        rows: list[list[Any]] = [[category, before[category], after[category]] for category in names]
        if len(self.before) > len(names):
            rows.append([OTHERS, *(counts.total() - sum(counts[name] for name in names) for counts in (before, after))])
        return rows

    def _total_variation(self) -> float | None:
        """Return half the sum, over all categories, of how much their share changed, 0–1; None if nothing is left."""
        before, after = self.before.total(), self.after.total()
        if not before or not after:
            return None
        return sum(abs(n / before - self.after[name] / after) for name, n in self.before.items()) / 2


def shift_in_words(shift: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about `Shift.as_json`."""
    if shift["categories"]:
        lost = sorted(shift["categories"], key=lambda counts: (counts[2] / counts[1], -counts[1]))
        least = ", ".join(f"{printable(name)} {after:,} of {before:,}" for name, before, after in lost[:MAX_SHOWN])
        total = shift["total_variation"]
        variation = "" if total is None else f"shares of categories differ by a total variation of {total:.3f}; "
        yield f"{variation}categories of which least is left: {least}"
    if (captions := shift["captions"]) is not None and captions["all_after"]:
        shares = [100 * captions[when] / captions[f"all_{when}"] for when in ("before", "after")]
        yield f"a caption in the source: {shares[0]:.1f} % of the scanned pictures, {shares[1]:.1f} % of the released"
    if captioned := shift.get("captions_by_category"):  # absent in older releases
        changed = sorted(_caption_shares(shift["categories"], captioned), key=lambda row: -row[0])
        most = ", ".join(
            f"{printable(name)} {was:.1f} % → {now:.1f} %"
            for pictures, name, was, now in changed[:MAX_SHOWN]
            if pictures
        )
        yield (
            f"captions by category change most in {most}" if most else "captions by category: the shares are as before"
        )


def _caption_shares(
    categories: Iterable[tuple[str, int, int]], captioned: Iterable[tuple[str, int, int]]
) -> Iterator[tuple[float, str, float, float]]:
    """Yield, for each category with released images: by how many its images with a caption differ from what the share
    before would give, its name, and the shares before and after in %."""
    for (name, before, after), (_, with_before, with_after) in zip(categories, captioned, strict=True):
        if after:
            was, now = 100 * with_before / before, 100 * with_after / after
            yield after * abs(now - was) / 100, name, was, now
