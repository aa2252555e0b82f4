"""Draw sets as PrivacyAlert and BIV-Priv are drawn: all private pictures, and some public ones for each.

    python examples/papers/draw_sets.py LABELS OUT.parquet [--public 3] [--split] [--seed N]

LABELS: one label a picture, with `private`; `privsieve labels consensus … --method majority` makes it of several
people's. `--public 3` takes three public pictures for each private one, as PrivacyAlert has them (788/2,348,
466/1,398 and 450/1,350 private and public pictures); `--public 1`, BIV-Priv's draw, is the default. The ratio holds
in each split of the file. `--split` gives the pictures a split first, at random: half to `train`, a quarter each to
`validation` and `test`, as PrivacyAlert's 20,000 pictures are cut.

PrivacyAlert thins after pictures with the same tags are taken out: run `same_tags.py` before.

Sources: Zhao et al., "PrivacyAlert"; Samson et al., "Privacy-Aware Visual Language Models".
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError
from scoring.labels.table import read_labels


def with_splits(labels: pa.Table, seed: int) -> pa.Table:
    """Give half of the pictures to train, a quarter to validation and a quarter to test."""
    place = np.random.default_rng(seed).permutation(labels.num_rows) / labels.num_rows
    splits = np.where(place < 0.5, "train", np.where(place < 0.75, "validation", "test"))
    return labels.set_column(labels.column_names.index("split"), "split", pa.array(splits.tolist(), pa.string()))


def drawn(labels: pa.Table, public: int, seed: int) -> pa.Table:
    """Take all private pictures of each split, and `public` times as many public ones. ValueError if they are few."""
    names = pc.coalesce(labels["sha256"], labels["key"])
    if len(pc.unique(names)) < labels.num_rows:
        raise ValueError("several labels of one picture; join them with privsieve labels consensus --method majority")
    generator = np.random.default_rng(seed)
    splits = np.array([split or "" for split in labels["split"].to_pylist()])
    private = np.array([np.nan if value is None else value for value in labels["private"].to_pylist()])
    chosen = []
    for split in np.unique(splits):
        is_private, is_public = (np.flatnonzero((splits == split) & (private == side)) for side in (1, 0))
        num_public = public * len(is_private)
        if not 0 < num_public <= len(is_public):
            where = f"split {split}" if split else "the file"
            raise ValueError(
                f"{where} has {len(is_private):,} private and {len(is_public):,} public pictures; the draw takes all "
                f"private ones and {public:,} public ones for each"
            )
        chosen += [is_private, generator.choice(is_public, num_public, replace=False)]
    return labels.take(pa.array(np.sort(np.concatenate(chosen))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels")
    parser.add_argument("out", type=Path)
    parser.add_argument("--public", type=int, default=1, help="public pictures for each private one")
    parser.add_argument("--split", action="store_true", help="give each picture a split, at random")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        labels = read_labels(asked.labels)
        if asked.split:
            labels = with_splits(labels.filter(pc.is_valid(labels["private"])), asked.seed)
        found = drawn(labels, asked.public, asked.seed)
    except (PrivsieveError, ValueError) as error:
        sys.exit(str(error) if isinstance(error, PrivsieveError) else f"{asked.labels}: {error}")
    pq.write_table(found, asked.out)
    for row in found.group_by(["split", "private"]).aggregate([([], "count_all")]).sort_by("split").to_pylist():
        print(f"{row['split'] or 'all'}: {row['count_all']:,} {'private' if row['private'] else 'public'} pictures")


if __name__ == "__main__":
    main()
