"""Find candidates for a benchmark by words in captions, as PrivBench and PrivacyAlert were begun.

    python examples/papers/keyword_candidates.py METADATA KEYWORDS.yaml OUT.parquet [--per-class N] [--seed N]

METADATA: Parquet, CSV or TSV files with the columns `url` and `caption` (`--url`, `--caption` name others).
KEYWORDS.yaml: class -> words; beside this script, `privbench-keywords.yaml` has PrivBench's eight private classes,
public and hard public pictures, and `privacyalert-keywords.yaml` the ten categories of PrivacyAlert. A URL is a
candidate of the first class in that file of which one of its captions has a word. OUT has `url` and `class`:
`privsieve fetch` takes it. A word only makes a candidate: people decide.

Sources: Samson et al., "Privacy-Aware Visual Language Models"; Zhao et al., "PrivacyAlert".
"""

import argparse
import re
import sys
from pathlib import Path

import duckdb
import yaml


def pattern(words: list[str]) -> str:
    """Return a regular expression that finds any of the words, or rows of words, as whole words in any case."""
    return r"(?i)\b(" + "|".join(r"\s+".join(map(re.escape, word.split())) for word in words) + r")\b"


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def write_candidates(
    metadata: str,
    keywords: Path,
    out: Path,
    per_class: int | None,
    seed: int,
    url: str = "url",
    caption: str = "caption",
) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Return how many captions each word of a class is in, and how many URLs of each class are written."""
    classes: dict[str, list[str]] = yaml.safe_load(keywords.read_text())
    db = duckdb.connect()
    reader = "read_parquet" if ".parquet" in metadata else "read_csv"
    rows = f"(SELECT {name(url)} AS url, CAST({name(caption)} AS VARCHAR) AS caption FROM {reader}({text(metadata)}))"
    words = [(class_, word) for class_, class_words in classes.items() for word in class_words]
    counts = ", ".join(f"count(*) FILTER (regexp_matches(caption, {text(pattern([word]))}))" for _, word in words)
    hits = dict(zip(words, db.execute(f"SELECT {counts} FROM {rows}").fetchall()[0], strict=True))
    ranks = " ".join(
        f"WHEN regexp_matches(caption, {text(pattern(class_words))}) THEN {rank}"
        for rank, class_words in enumerate(classes.values(), 1)
    )
    names = f"[{', '.join(map(text, classes))}]"  # counted from 1
    db.execute(
        f"""
        CREATE TABLE candidates AS
        WITH ranked AS (SELECT url, min(CASE {ranks} END) AS rank FROM {rows} WHERE url IS NOT NULL GROUP BY url),
        lots AS (SELECT *, md5(url || '{seed}') AS lot FROM ranked),
        drawn AS (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY lot, url) AS place FROM lots)
        SELECT url, {names}[rank] AS class FROM drawn
        WHERE rank IS NOT NULL AND place <= {per_class or 2**62} ORDER BY rank, url
        """
    )
    db.sql("FROM candidates").write_parquet(str(out))
    chosen = dict(db.sql("SELECT class, count(*) FROM candidates GROUP BY class").fetchall())
    return hits, {class_: chosen.get(class_, 0) for class_ in classes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metadata")
    parser.add_argument("keywords", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-class", type=int, help="draw this many candidates of each class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", default="url", help="column of addresses")
    parser.add_argument("--caption", default="caption", help="column of captions or tags")
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        hits, chosen = write_candidates(**vars(asked))
    except (OSError, yaml.YAMLError, AttributeError, TypeError):
        sys.exit(f"{asked.keywords} cannot be read, or is not class -> words")
    except duckdb.Error as error:  # its text may repeat a caption
        sys.exit(f"{asked.metadata} cannot be read ({type(error).__name__}); --url and --caption name its columns")
    for (class_, word), count in hits.items():
        print(f"{class_:14}{word:24}{count:>10,} captions")
    print(f"in {asked.out}: {', '.join(f'{class_} {count:,}' for class_, count in chosen.items())}")


if __name__ == "__main__":
    main()
