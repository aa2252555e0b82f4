r"""Draw a benchmark like PrivBench (and PrivBench-H) from candidates that people accepted.

    python examples/papers/keyword_candidates.py captions.parquet \
      examples/papers/privbench-keywords.yaml candidates.parquet
    privsieve fetch candidates.parquet --out shards
    privsieve scan shards --run run --category class
    privsieve review run --queue "category = 'tattoo'" --n 400 --for question \
      --question "Does this show a tattoo with a name, or …?"      # and each other private class
    privsieve review run --queue "category LIKE '%public'" --n 4000
    python examples/papers/privbench.py candidates.parquet run benchmark --hard

Of each private class 20 pictures are drawn of which most people say yes to the question of that class, and 160 public
ones that most call public; `--hard` adds 160 hard public ones, which resemble a private class. Of near duplicates one
picture is taken. The folder holds no picture: labels for `privsieve evaluate`, `pictures.csv` (names, URLs, classes,
batches, hashes) and a datasheet with gaps in square brackets. The public pictures are in eight batches of 20, which
`evaluate` takes.

Source: Samson et al., "Privacy-Aware Visual Language Models".
"""

import argparse
import hashlib
import sys
from collections import Counter
from pathlib import Path
from string import Template

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import privsieve
from ingest.images.phash import near_duplicate_groups
from ingest.sample import url_sha256_of
from ingest.storage.place import place
from scoring.labels.reviews import read_reviews, standing
from scoring.privacy import PRIVATE_CLASSES
from scoring.runs import REVIEWS

PUBLIC, HARD = "public", "hard-public"
NAMES = {"card": "debit_card", "plate": "license_plate", "chat": "private_chat", HARD: "hard_public"}
"""Class of privbench-keywords.yaml -> its name in PrivBench; the other names are the same."""

SHEET = Path(__file__).with_name("privbench-datasheet.md")


def accepted(candidates: str, run: str, seed: int) -> list[dict[str, str]]:
    """Return sha256, url and class of the accepted pictures, in the order of their lots, without near duplicates."""
    listed = duckdb.sql("SELECT url, class FROM read_parquet(?)", params=[candidates]).fetchall()
    class_of = {url_sha256_of(url): (url, class_) for url, class_ in listed}
    answers = standing(read_reviews(place(run).at(REVIEWS))).select(["sha256", "answer"]).to_pylist()
    votes = Counter((row["sha256"], row["answer"]) for row in answers)
    pictures = {}
    with privsieve.open_run(run) as opened:
        rows = opened.sql("SELECT sha256, url_sha256, phash FROM images WHERE sha256 IS NOT NULL").to_pylist()
    for row in rows:
        url, class_ = class_of.get(row["url_sha256"], (None, None))
        for_it, against = ("yes", "no") if class_ in PRIVATE_CLASSES else ("public", "private")
        if class_ is not None and votes[row["sha256"], for_it] > votes[row["sha256"], against]:
            pictures.setdefault(row["sha256"], row | {"url": url, "class": class_})
    lots = sorted(pictures.values(), key=lambda row: hashlib.sha256(f"{seed}/{row['sha256']}".encode()).digest())
    groups = near_duplicate_groups([row["phash"] for row in lots]).tolist()
    return [row for number, row in enumerate(lots) if groups.index(groups[number]) == number]


def drawn(pictures: list[dict[str, str]], wanted: dict[str, int], per_class: int) -> list[dict[str, object]]:
    """Return a row of `pictures.csv` for each picture drawn. ValueError with each class of which there are too few."""
    of_class = {name: [row for row in pictures if row["class"] == name] for name in wanted}
    if few := [f"{name} {len(rows)} of {wanted[name]}" for name, rows in of_class.items() if len(rows) < wanted[name]]:
        raise ValueError(f"too few accepted pictures: {', '.join(few)}; let people judge more candidates")
    return [
        {
            "name": f"{NAMES.get(name, name)}_{number + 1}",
            "url": row["url"],
            "class": NAMES.get(name, name),
            "private": int(name in PRIVATE_CLASSES),
            "batch": None if name in PRIVATE_CLASSES else f"batch {number // per_class + 1}",
            "sha256": row["sha256"],
        }
        for name, rows in of_class.items()
        for number, row in enumerate(rows[: wanted[name]])
    ]


def write_benchmark(candidates: str, run: str, out: Path, hard: bool, per_class: int, seed: int) -> None:
    num_public = per_class * len(PRIVATE_CLASSES)
    wanted = dict.fromkeys(PRIVATE_CLASSES, per_class) | {PUBLIC: num_public} | ({HARD: num_public} if hard else {})
    pictures = accepted(candidates, run, seed)
    rows = drawn(pictures, wanted, per_class)
    out.mkdir(parents=True)
    pa.csv.write_csv(pa.Table.from_pylist(rows), out / "pictures.csv")
    for file, other in (("labels.parquet", HARD), ("labels-hard.parquet", PUBLIC))[: 1 + hard]:
        table = pa.Table.from_pylist([row for row in rows if row["class"] != NAMES.get(other, other)])
        columns = table.select(["sha256", "batch", "class", "private"]).rename_columns(
            ["sha256", "split", "class", "private"]
        )
        pq.write_table(columns.append_column("annotator", pa.array(["benchmark"] * table.num_rows)), out / file)
    num_accepted = {name: sum(row["class"] == name for row in pictures) for name in wanted}
    composition = f"{num_public} private pictures of {len(PRIVATE_CLASSES)} classes and {num_public} public ones."
    if hard:
        composition += f" {num_public} more public ones are hard: they resemble a private class."
    sheet = Template(SHEET.read_text()).substitute(
        version=privsieve.__version__,
        composition=composition,
        per_class=per_class,
        counts="\n".join(f"| {NAMES.get(n, n)} | {num_accepted[n]} | {num} |" for n, num in wanted.items()),
        rules="\n".join(f"| {NAMES.get(n, n)} | {rule} | {law} |" for n, (rule, law) in PRIVATE_CLASSES.items()),
    )
    (out / "datasheet.md").write_text(sheet)
    for name, num in wanted.items():
        print(f"{NAMES.get(name, name)}: {num_accepted[name]:,} accepted, {num:,} drawn")


def main() -> None:
    questions = "\n".join(f"  {name}: Does this show {rule}?" for name, (rule, _) in PRIVATE_CLASSES.items())
    how = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": f"questions:\n{questions}"}
    parser = argparse.ArgumentParser(description=__doc__, **how)
    parser.add_argument("candidates")
    parser.add_argument("run")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--hard", action="store_true", help="also as many hard public pictures")
    parser.add_argument("--per-class", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another folder, or remove it")
    try:
        write_benchmark(**vars(asked))
    except (privsieve.PrivsieveError, ValueError, duckdb.Error) as error:
        sys.exit(str(error).splitlines()[0])


if __name__ == "__main__":
    main()
