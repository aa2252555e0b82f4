"""Write the labels of BIV-Priv or CPRT-Bench as a CSV file, which `privsieve labels import csv` reads.

    python examples/papers/label_lists.py biv-priv ROOT ROOT/labels.csv
    privsieve labels import csv ROOT/labels.csv --mapping examples/papers/biv-priv-mapping.yaml --annotator biv-priv \
--out biv-priv.parquet
    python examples/papers/label_lists.py cprt-bench ROOT labels.csv
    privsieve labels import csv labels.csv --annotator cprt-bench --out cprt-bench.parquet

BIV-Priv has private pictures in `final_release`, with the class in the file name, and others in
`Public/Original_Images_Nonprivate` (so a loader of its pictures reads it). Names are compared with the 14 classes by
letters and digits, in any case; the longest class within the name counts, and a name without one has no class.

CPRT-Bench has `cprt_train.json` and `cprt_test.json`: attributes and scores of pictures of VISPR, which are found by
their names. Written after the card of the data set, which does not show how the attributes are named; names of no
attribute go into the column `labels`. 0.5 counts as 0, as in the paper.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scoring.labels.importing import load_mapping
from scoring.taxonomy import KEYS

CLASSES = tuple(load_mapping(str(Path(__file__).with_name("biv-priv-mapping.yaml"))).entries)
PICTURES = {".jpg", ".jpeg", ".png"}


def letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def biv_priv(root: Path) -> Iterator[dict[str, object]]:
    """Yield a row for each picture; `key` is its path below the root."""
    for folder in ("final_release", "Public/Original_Images_Nonprivate"):
        for picture in sorted((root / folder).rglob("*")):
            if picture.suffix.lower() not in PICTURES:
                continue
            row: dict[str, object] = {"key": picture.relative_to(root).as_posix(), "private": 0, "class": "public"}
            if folder == "final_release":
                within = [name for name in CLASSES if letters(name) in letters(picture.name)]
                class_ = max(within, key=lambda name: len(letters(name)), default="")
                row |= {"private": 1, "class": class_, "labels": class_ or "no class in the name"}
            yield row


def cprt_bench(root: Path) -> Iterator[dict[str, object]]:
    """Yield a row for each record; `key` is the name of the picture in VISPR."""
    for split in ("train", "test"):
        file = root / f"cprt_{split}.json"
        for record in json.loads(file.read_bytes()) if file.exists() else ():
            values = {key: value for level in record["binary_labels"].values() for key, value in level.items()}
            others = [key for key, value in values.items() if value and key not in KEYS]
            yield {
                "key": f"{Path(record['id']).stem}.jpg",
                "split": split,
                "licence": "MIT",
                "score": record["score"],
                **{key: values[key] for key in KEYS if key in values},
                "labels": "; ".join(others),
            }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_set", choices=["biv-priv", "cprt-bench"])
    parser.add_argument("root", metavar="ROOT", type=Path)
    parser.add_argument("out", metavar="OUT.csv", type=Path)
    given = parser.parse_args(arguments)
    if not given.root.is_dir():
        sys.exit(f"label_lists: {given.root} is no folder")
    try:
        rows = list((biv_priv if given.data_set == "biv-priv" else cprt_bench)(given.root))
        if not rows:
            sys.exit(f"label_lists: {given.root} has nothing of {given.data_set}; --help shows where it is")
        with given.out.open("x", newline="", encoding="utf-8") as file:
            columns = ("key", "split", "licence", "class", "private", "score", *KEYS, "labels")
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    except FileExistsError:
        sys.exit(f"label_lists: {given.out} already exists; name another file, or remove it")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.exit(f"label_lists: {given.root} or {given.out} is not as the data set's: {type(error).__name__}")
    print(f"{len(rows)} pictures in {given.out}")


if __name__ == "__main__":
    main()
