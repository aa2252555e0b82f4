"""Tesseract, a program that reads scripts which the detectors' own model does not know, where it is installed."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import cache

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.sample import printable

PROGRAM = "tesseract"
PROGRAM_VARIABLE = "PRIVSIEVE_TESSERACT"
"""Names the program, or is empty for none; by default it is `tesseract` on the PATH."""

LIMIT_S = 60.0
"""Of all calls for a page. One takes 0.1 to 0.5 s of CPU."""

MAX_OUTPUT_BYTES = 4 * 2**20
"""Limit for the words of a page, which take 10 kB."""

_VERSION = re.compile(r"tesseract (v?\d[\w.+-]{0,40})", re.ASCII)
_OTHER_SCRIPTS = re.compile(
    r"^(?:amh|ara|asm|bel|ben|bul|ell|fas|guj|heb|hin|hye|kan|kat|kaz|khm|kir|kor|lao|mal|mar|mkd|mya|nep|ori|pan|rus"
    r"|sin|srp|tam|tel|tha|ukr|urd|yid)$",
    re.MULTILINE,
)
"""Tesseract's languages that are not written in Latin, Chinese or Japanese, which the detectors read themselves."""

Grey = npt.NDArray[np.uint8]


@cache
def version() -> str | None:
    """Return the version with the languages that count, such as "5.3.0 ell rus"; None if there are none."""
    try:
        version = _VERSION.match(_output(LIMIT_S, "--version"))
        languages = sorted(set(_OTHER_SCRIPTS.findall(_output(LIMIT_S, "--list-langs"))))
    except OSError:
        return None
    return " ".join([version[1], *languages]) if version and languages else None


def languages() -> list[str]:
    return (version() or "").split()[1:]


def refuse_wrong_program() -> None:
    """Raise EngineError if the variable names a program, and that is no Tesseract with languages that count."""
    name = os.environ.get(PROGRAM_VARIABLE)
    if name and version() is None:
        raise EngineError(
            f'{PROGRAM_VARIABLE}="{printable(name):.200}" is no Tesseract with a language of another script; correct '
            "it, or leave it empty to do without"
        )


def read(picture: Grey, language: str, deadline_s: float) -> list[tuple[float, str, float]]:
    """Return the words of lines one under the other: (middle from the top in pixels, text, confidence 0–1).

    picture: shape (height, width). deadline_s: by time.monotonic(). None are read if the program fails, takes longer,
    or prints anything else than such words.
    """
    head = b"P5 %d %d 255\n" % picture.shape[::-1]
    options = ("-", "-", "--psm", "6", "--dpi", "150", "-l", language, "tsv")
    try:
        table = _output(deadline_s - time.monotonic(), *options, content=head + picture.tobytes())
        cells = [row.split("\t") for row in table.splitlines()[1:]]
        words = [
            (int(row[7]) + int(row[9]) / 2, row[11], float(row[10]) / 100)
            for row in cells
            if len(row) == 12 and row[11].strip()
        ]
    except (OSError, ValueError, OverflowError):
        return []
    if not all(0 <= middle < len(picture) and confidence <= 1 for middle, _, confidence in words):
        return []
    return [word for word in words if word[2] >= 0]


def _output(limit_s: float, *arguments: str, content: bytes = b"") -> str:
    """Return what the program prints. OSError if it fails, takes longer or prints too much."""
    program = shutil.which(os.environ.get(PROGRAM_VARIABLE, PROGRAM))
    if program is None or limit_s <= 0:
        raise FileNotFoundError
    with subprocess.Popen(
        [program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_THREAD_LIMIT": "1"},
        start_new_session=True,  # its own children end with it
    ) as process:
        timer = threading.Timer(limit_s, _kill, [process])
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(content)
            output = process.stdout.read(MAX_OUTPUT_BYTES)
            if process.stdout.read(1) or process.wait() != 0:
                raise OSError
        finally:
            timer.cancel()
            _kill(process)
    return output.decode(errors="replace")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the program, unless it has ended, and what it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
