"""Planted corpora for screens: pictures of random blocks, whose captions tell how likely each is private."""

import csv
import hashlib
import io
from pathlib import Path

import numpy as np
from PIL import Image

from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines.canned import load
from scoring.privacy import private_of_values
from tests.jobs.made import tar

PRIVATE_WORDS = ("passport", "patient", "wedding", "address", "baby", "invoice")
PUBLIC_WORDS = ("mountain", "bridge", "logo", "recipe", "sunset", "engine")
COMMON_WORDS = ("the", "a", "blue", "old", "photo", "view", "of", "new")


def blocks(generator: np.random.Generator) -> bytes:
    """A picture of 8 x 8 random blocks, so that no two are near duplicates."""
    colours = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(colours).resize((32, 32), Image.Resampling.NEAREST).save(buffer, "PNG")
    return buffer.getvalue()


def answered_private(picture: bytes) -> float:
    """What the canned engine says of these bytes: 1 private, 0 public, NaN unknown."""
    view = View(np.zeros((1, 1, 3), np.uint8), frozenset(), hashlib.sha256(picture).hexdigest())
    (answer,) = load(EngineOptions()).assess([view])
    assert isinstance(answer, Assessment)
    return float(private_of_values(answer.values[None].astype(np.float64))[0])


def caption(generator: np.random.Generator, is_private: bool, noise: float) -> str:
    """Three words of its side, each of the other side with the probability `noise`, and three common words."""
    sides = (PRIVATE_WORDS, PUBLIC_WORDS) if is_private else (PUBLIC_WORDS, PRIVATE_WORDS)
    telling = [generator.choice(sides[1] if generator.random() < noise else sides[0]) for _ in range(3)]
    words = [*telling, *generator.choice(COMMON_WORDS, 3)]
    return " ".join(str(word) for word in generator.permutation(words))


def planted_corpus(
    folder: Path,
    num_private: int,
    num_public: int,
    seed: int,
    noise: float = 0.05,
    without_caption: float = 0.0,
    for_canned: bool = False,
    with_class: bool = False,
) -> dict[str, bool]:
    """Write tars of 200 pictures each into the folder. Returns sha256 -> whether it is private.

    noise: 1 for captions that say the opposite. for_canned: the canned engine gives the same answers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    sides = generator.permutation([True] * num_private + [False] * num_public).tolist()
    truth = dict[str, bool]()
    for first in range(0, len(sides), 200):
        members = dict[str, bytes]()
        for number, is_private in enumerate(sides[first : first + 200], first):
            picture = blocks(generator)
            while for_canned and answered_private(picture) != is_private:
                picture = blocks(generator)
            truth[hashlib.sha256(picture).hexdigest()] = is_private
            members[f"{number:06d}.png"] = picture
            if with_class:
                members[f"{number:06d}.cls"] = b"odd" if number % 2 else b"even"
            text = caption(generator, is_private, noise)
            if generator.random() >= without_caption:
                members[f"{number:06d}.txt"] = text.encode()
        tar(folder / f"{first // 200:05d}.tar", members)
    return truth


def write_labels(file: Path, truth: dict[str, bool]) -> Path:
    """A labels file of these pictures."""
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sha256", "private"])
        writer.writerows((sha256, int(is_private)) for sha256, is_private in truth.items())
    return file
