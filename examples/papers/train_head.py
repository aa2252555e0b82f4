"""Train a head for SemSim on versions of pictures that people recognised, and versions that they did not.

    python examples/papers/train_head.py LABELLED [LABELLED...] --out head.safetensors
    privsieve similarity compare ORIGINALS CHANGED --encoder head.safetensors

LABELLED has the layout of the authors' data (SonyResearch/SemSim):

    CLASS/    7_CLASS_ori.png   an original            7_CLASS_rec.png   a version that people recognised
    -CLASS/   9_CLASS_rec.png   versions that they did not recognise
    others/   any names         more versions that were not recognised

More versions of one original have an ending: 7_CLASS_rec-blur.png. Each recognised version makes a triplet with its
original and an unrecognised version, drawn anew in every epoch: of the same original, else of its class, else of
`others`. The loss is max(0, d(x, x+) - d(x, x-) + margin). Needs the package safetensors.

Ours: one linear layer over the frozen features, where the paper trains a ResNet-50 from scratch; a tenth of the
originals held back. The paper's: margin 1, learning rate 0.1, batches of 128, 200 epochs. The authors' code: momentum
0.9, weight decay 0.0005. Source: Sun et al., "Privacy Assessment on Reconstructed Images".
"""

import argparse
import json
import posixpath
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ingest.errors import PrivsieveError
from jobs.runtime.hash_list import NOTHING
from jobs.similarity.comparing import Corpus, read_picture
from scoring.picture_encoders import FOOTER_KEY, FROZEN_SHA256, HEAD_BIAS, HEAD_WEIGHT, frozen_encoder

DIMENSIONS, BATCH, MOMENTUM, WEIGHT_DECAY = 128, 128, 0.9, 5e-4

Triplet = tuple[str, str, tuple[str, ...]]
"""An original, a recognised version, and the unrecognised ones of which each epoch draws one; by their paths."""


def triplets_of(paths: Iterable[str]) -> list[list[Triplet]]:
    """Return the triplets of each original. paths: without extensions."""
    originals, recognised, unrecognised = {}, defaultdict(list), defaultdict(list)
    for path in paths:
        folder, name = posixpath.split(path)
        class_ = posixpath.basename(folder)
        match = re.fullmatch(r"(.+)_(ori|rec)([^_]*)", name, re.DOTALL)
        if class_ == "others":
            unrecognised["others"].append(path)
        elif match and match[2] == "ori":
            originals[class_.removeprefix("-"), match[1]] = path
        elif match and class_.startswith("-"):
            unrecognised[class_[1:], match[1]].append(path)
            unrecognised[class_[1:]].append(path)
        elif match:
            recognised[class_, match[1]].append(path)
    found = []
    for name, original in originals.items():
        others = unrecognised.get(name) or unrecognised.get(name[0]) or unrecognised["others"]
        if recognised[name] and others:
            found.append([(original, version, tuple(others)) for version in recognised[name]])
    return found


def share_in_order(features: dict[str, np.ndarray], triplets: list[Triplet]) -> float:
    """Return the share of unrecognised versions that are farther than the recognised one, mean over the triplets."""
    shares = []
    for original, version, others in triplets:
        near = np.linalg.norm(features[version] - features[original])
        shares.append(np.mean([np.linalg.norm(features[other] - features[original]) > near for other in others]))
    return float(np.mean(shares))


def trained(features: dict[str, np.ndarray], triplets: list[Triplet], args: argparse.Namespace) -> dict:
    """Return the tensors of the head. features: path -> frozen features."""
    random = np.random.default_rng(args.seed)
    num_inputs = len(next(iter(features.values())))
    bound = num_inputs**-0.5
    weights = random.uniform(-bound, bound, (DIMENSIONS, num_inputs + 1)).astype(np.float32)  # the bias last
    velocity = np.zeros_like(weights)
    for _ in range(args.epochs):
        order = random.permutation(len(triplets))
        for start in range(0, len(order), BATCH):
            batch = [triplets[number] for number in order[start : start + BATCH]]
            paths = [*(t[0] for t in batch), *(t[1] for t in batch), *(str(random.choice(t[2])) for t in batch)]
            inputs = np.stack([np.append(features[path], np.float32(1)) for path in paths])
            slopes = loss_slopes(inputs @ weights.T, args.margin).T @ inputs / len(batch)
            velocity = MOMENTUM * velocity + slopes + WEIGHT_DECAY * weights
            weights = weights - args.learning_rate * velocity
            if not np.isfinite(weights).all():
                sys.exit("the weights are no numbers; use a smaller --learning-rate")
    return {HEAD_WEIGHT: np.ascontiguousarray(weights[:, :-1]), HEAD_BIAS: np.ascontiguousarray(weights[:, -1])}


def loss_slopes(outputs: np.ndarray, margin: float) -> np.ndarray:
    """Return the slopes of the loss by the outputs: of originals, of recognised, of unrecognised versions."""
    lengths = np.maximum(np.linalg.norm(outputs, axis=1, keepdims=True), 1e-12)
    units = outputs / lengths
    original, near, far = np.split(units, 3)
    to_near, to_far = original - near, original - far
    d_near, d_far = (np.maximum(np.linalg.norm(to, axis=1, keepdims=True), 1e-6) for to in (to_near, to_far))
    counts = (d_near - d_far + margin > 0).astype(np.float32)
    to_near, to_far = counts * to_near / d_near, counts * to_far / d_far
    slopes = np.concatenate([to_near - to_far, -to_near, to_far])
    return (slopes - units * (units * slopes).sum(axis=1, keepdims=True)) / lengths


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="LABELLED")
    parser.add_argument("--out", type=Path, required=True)
    for name, default in (("margin", 1.0), ("learning-rate", 0.1), ("held-back", 0.1)):
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("epochs", 200), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    args = parser.parse_args(argv)
    features, originals = {}, []
    try:
        encoder = frozen_encoder()
        for url in args.folders:
            corpus = Corpus(url)
            places = {each.path: each for each in corpus.places}
            for path, where in places.items():
                if (pixels := read_picture(corpus, where, NOTHING).pixels) is not None:
                    features[f"{url}/{path}"] = encoder.of(pixels)
            originals += triplets_of(path for path in features if path.startswith(f"{url}/"))
    except PrivsieveError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    if not originals:
        sys.exit("no original has versions of both kinds; --help shows the layout")
    order = np.random.default_rng(args.seed).permutation(len(originals))
    num_held_back = min(len(originals) - 1, round(args.held_back * len(originals)))
    held_back, kept = ([each for n in part for each in originals[n]] for part in np.split(order, [num_held_back]))
    tensors = trained(features, kept, args)
    from safetensors.numpy import save_file

    card = {"features_sha256": FROZEN_SHA256, "margin": args.margin, "epochs": args.epochs, "seed": args.seed}
    save_file(tensors, args.out, {FOOTER_KEY: json.dumps(card | {"learning_rate": args.learning_rate})})
    heads = {path: tensors[HEAD_WEIGHT] @ of + tensors[HEAD_BIAS] for path, of in features.items()}
    heads = {path: of / max(float(np.linalg.norm(of)), 1e-12) for path, of in heads.items()}
    print(f"{len(kept)} triplets of {len(originals) - num_held_back} originals")
    print(f"in order: {share_in_order(heads, kept):.3f}")
    if held_back:
        print(f"in order: {share_in_order(heads, held_back):.3f} of those of {num_held_back} held-back originals")


if __name__ == "__main__":
    main(sys.argv[1:])
