r"""Ask people whether they recognise changed pictures, and count their answers, as the study of SemSim does.

    python examples/papers/change.py ORIGINALS CHANGED all --sample 100
    python examples/papers/recognised.py ask ORIGINALS STUDY CHANGED/*
    privsieve review STUDY/run --queue true --n 3000 --for question \
      --question "Do both halves show the same person or thing?"
    python examples/papers/recognised.py votes STUDY
    privsieve similarity compare ORIGINALS CHANGED/* --part whole --out pairs.parquet
    python examples/papers/rank_metrics.py STUDY/votes.csv pairs.parquet

`ask` writes STUDY/pictures: the changed picture on the left, an original on the right. --decoys is the share of
questions with another original on the right; the paper names no share. `votes` says how often each person was right on
them, and --min-attention leaves out who was right less often. Pairs with fewer than --min-votes votes are left out.

Published: five votes a pair. Source: Sun et al., "Privacy Assessment on Reconstructed Images", second set-up (the same,
or not). The first one, a choice of 20, is not made here.
"""

import argparse
import csv
import io
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

import privsieve
from ingest.errors import PrivsieveError
from ingest.storage.place import place
from jobs.runtime.hash_list import hash_list_of
from jobs.similarity.comparing import Corpus, corpora_of, drawn, read_picture, reduced
from scoring.labels.reviews import read_reviews, standing

QUESTIONS, COLUMNS = "questions.csv", ("name", "set", "key", "is_decoy")


def halves(changed: np.ndarray, original: np.ndarray) -> bytes:
    """Return both pictures beside each other, as a JPEG."""
    left, right = (Image.fromarray(np.ascontiguousarray(reduced(pixels))) for pixels in (changed, original))
    both = Image.new("RGB", (left.width + 24 + right.width, max(left.height, right.height)), "white")
    both.paste(left, (0, 0))
    both.paste(right, (left.width + 24, 0))
    stream = io.BytesIO()
    both.save(stream, "JPEG", quality=95)
    return stream.getvalue()


def ask(args: argparse.Namespace) -> None:
    """Write the pictures, what each asks, and a run of them that people can be asked about."""
    hash_list, originals = hash_list_of(args.hash_list), Corpus(args.originals)
    sets = corpora_of(args.changed)
    random, rows = np.random.default_rng(args.seed), []
    wanted = drawn(originals.places, args.sample, args.seed)
    folder = Path(args.study) / "pictures"
    folder.mkdir(parents=True)
    for number, where in enumerate(wanted):
        original = read_picture(originals, where, hash_list)
        for set_name, corpus in sets.items():
            partner = corpus.partner_of(where, originals)
            changed = None if partner is None else read_picture(corpus, partner, hash_list)
            if changed is None or changed.is_withheld or original.is_withheld:
                continue
            if changed.pixels is None or original.pixels is None or np.array_equal(changed.pixels, original.pixels):
                continue
            right, is_decoy = original, len(wanted) > 1 and random.random() < args.decoys
            if is_decoy:
                other = (number + random.integers(1, len(wanted))) % len(wanted)
                right = read_picture(originals, wanted[other], hash_list)
                if right.pixels is None or right.is_withheld:
                    continue
            name = f"{len(rows):06}.jpg"
            (folder / name).write_bytes(halves(changed.pixels, right.pixels))
            rows.append((name, set_name, originals.key_of(where), int(is_decoy)))
    if not rows:
        raise PrivsieveError("no changed picture can be shown beside an original")
    with open(folder.parent / QUESTIONS, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    privsieve.scan(str(folder), str(folder.parent / "run"), engine="canned")
    print(f"{len(rows)} questions, {sum(row[3] for row in rows)} of them decoys")


def votes(args: argparse.Namespace) -> None:
    """Count the answers of the review, and write those that count as set, key, annotator, recognised."""
    with open(Path(args.study) / QUESTIONS, newline="", encoding="utf-8") as file:
        questions = {row["name"]: row for row in csv.DictReader(file)}
    given, right = defaultdict(list), defaultdict(list)
    for row in standing(read_reviews(place(f"{args.study}/run/reviews"))).to_pylist():
        question = questions[row["key"]]
        if row["answer"] not in ("yes", "no"):
            continue
        if question["is_decoy"] == "1":
            right[row["annotator"]].append(row["answer"] == "no")
        else:
            given[question["set"], question["key"]].append((row["annotator"], int(row["answer"] == "yes")))
    for name, answers in sorted(right.items()):
        print(f"{name}: right on {sum(answers)} of {len(answers)} decoys")
    left_out = {name for name, answers in right.items() if np.mean(answers) < args.min_attention}
    enough = {pair: [vote for vote in of if vote[0] not in left_out] for pair, of in given.items()}
    enough = {pair: of for pair, of in enough.items() if len(of) >= args.min_votes}
    with open(Path(args.study) / "votes.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(("set", "key", "annotator", "recognised"))
        csv.writer(file).writerows((*pair, *vote) for pair, of in sorted(enough.items()) for vote in sorted(of))
    print(f"{len(enough)} pairs with {args.min_votes} votes or more, {len(given) - len(enough)} with fewer")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    asking, counting = (verbs.add_parser(verb.__name__) for verb in (ask, votes))
    for names, of in (("originals study", asking), ("study", counting)):
        for name in names.split():
            of.add_argument(name)
    asking.add_argument("changed", nargs="+", help="the same pictures after, as for similarity compare")
    asking.add_argument("--sample", type=int)
    asking.add_argument("--decoys", type=float, default=0.2)
    asking.add_argument("--seed", type=int, default=0)
    asking.add_argument("--hash-list")
    counting.add_argument("--min-votes", type=int, default=5)
    counting.add_argument("--min-attention", type=float, default=0.0)
    for verb, of in ((ask, asking), (votes, counting)):
        of.set_defaults(run=verb)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except (PrivsieveError, OSError) as error:
        sys.exit(f"{Path(__file__).name}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
