"""A shipped fake: deterministic answers derived from the image's hash, without looking at the picture.

For tests, dry runs and measuring everything but the model. Never use its values for a decision.

It can also do what a bad image may do to a real engine, for fire drills: the environment variable PRIVSIEVE_DRILL
names a JSON file of {sha256 of an image, or "*": "crash" | "hang" | "memory" | "raise" | seconds to sleep | path of a
file to wait for}. With {"load": "refuse"} the engine cannot be loaded.
"""

import hashlib
import json
import os
import signal
import time
from collections.abc import Sequence

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Assessment, Box, EngineDescription, EngineOptions, Outcome, View
from scoring.engine_facts import Preview, Requirements
from scoring.engines.picture import seen_as_decoded
from scoring.taxonomy import KEYS


def refuse_wrong(options: EngineOptions) -> None:
    options.refuse_all_but("canned", ())


def describe(options: EngineOptions) -> EngineDescription:
    refuse_wrong(options)
    return EngineDescription(name="canned", protocol="sha256", assessed=KEYS, is_fake=True)


def requirements(options: EngineOptions) -> Requirements:
    return Requirements()


def preview(options: EngineOptions) -> Preview:
    return Preview(seen_as_decoded)


def load(options: EngineOptions) -> "CannedEngine":
    return CannedEngine()


DRILL = "PRIVSIEVE_DRILL"


class CannedEngine:
    def __init__(self) -> None:
        self._drill: dict[str, str | float] = {}
        if DRILL in os.environ:
            with open(os.environ[DRILL]) as file:
                self._drill = json.load(file)
        if self._drill.get("load") == "refuse":
            raise EngineError("this is a drill: the canned engine cannot be loaded here")

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        return [self._answer(view.sha256) for view in views]

    def _practise(self, sha256: str) -> None:
        match self._drill.get(sha256, self._drill.get("*")):
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "raise":
                raise ValueError("a drill")
            case "hang":
                time.sleep(1e6)
            case "memory":
                memory = [bytearray(b"x" * 2**28)]
                while True:
                    memory.append(memory[0][: 2**26])
                    time.sleep(0.5)
            case float() | int() as seconds:
                time.sleep(seconds)
            case str() as path if "/" in path:
                while not os.path.exists(path):
                    time.sleep(0.05)

    def _answer(self, sha256: str) -> Assessment:
        """Answer by a hash of the hash, whose byte i decides attribute i: about 1 in 8 present, 1 in 16 ambiguous, 1
        in 32 null."""
        self._practise(sha256)
        random_bytes = np.frombuffer(hashlib.sha512(sha256.encode()).digest(), dtype=np.uint8)[: len(KEYS)]
        conditions = [random_bytes < 32, random_bytes < 48, random_bytes < 56]
        values = np.select(conditions, [1.0, 0.5, np.nan], 0.0).astype(np.float32)
        rows = {0.0: (0.9, 0.07, 0.03), 0.5: (0.2, 0.6, 0.2), 1.0: (0.03, 0.07, 0.9)}
        present = [key for key, value in zip(KEYS, values, strict=True) if value == 1]
        return Assessment(
            values=values,
            evidence=tuple(f"canned answer for {key}" for key in present),
            boxes=tuple(Box(key, "canned", 0.25, 0.25, 0.75, 0.75, 1.0) for key in present),
            probabilities=np.array([rows.get(float(value), (np.nan,) * 3) for value in values], dtype=np.float32),
        )
