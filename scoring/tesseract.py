"""Tesseract, a program that reads scripts which the detectors' own model does not know, where it is installed."""

import os
import re
import shutil
import subprocess
from functools import cache

import numpy as np
import numpy.typing as npt

PROGRAM = "tesseract"
PROGRAM_VARIABLE = "PRIVSIEVE_TESSERACT"
"""Names the program, or is empty for none; by default it is `tesseract` on the PATH."""

_OTHER_SCRIPTS = re.compile(
    r"^(?:amh|ara|asm|bel|ben|bul|ell|fas|guj|heb|hin|hye|kan|kat|kaz|khm|kir|kor|lao|mal|mar|mkd|mya|nep|ori|pan|rus"
    r"|sin|srp|tam|tel|tha|ukr|urd|yid)$",
    re.MULTILINE,
)
"""Tesseract's languages that are not written in Latin, Chinese or Japanese, which the detectors read themselves."""

_LIMIT_S = 60.0
"""Of one call, which takes 0.1 to 0.5 s of CPU."""

Grey = npt.NDArray[np.uint8]


@cache
def version() -> str | None:
    """Return the version with the languages that count, such as "5.3.0 ell rus"; None if there are none."""
    try:
        version = _output("--version").split()[1]
        languages = sorted(_OTHER_SCRIPTS.findall(_output("--list-langs")))
    except (OSError, subprocess.SubprocessError, IndexError):
        return None
    return " ".join([version, *languages]) if languages else None


def languages() -> list[str]:
    return (version() or "").split()[1:]


def read(picture: Grey, language: str) -> list[tuple[float, str, float]]:
    """Return the words of lines one under the other: (middle from the top in pixels, text, confidence 0–1).

    picture: shape (height, width). None are read if the program fails, or takes longer than a minute.
    """
    head = b"P5 %d %d 255\n" % picture.shape[::-1]
    try:
        table = _output("-", "-", "--psm", "6", "--dpi", "150", "-l", language, "tsv", content=head + picture.tobytes())
    except (OSError, subprocess.SubprocessError):
        return []
    cells = [row.split("\t") for row in table.splitlines()[1:]]
    words = [row for row in cells if len(row) == 12 and row[11].strip() and float(row[10]) >= 0]
    return [(int(row[7]) + int(row[9]) / 2, row[11], float(row[10]) / 100) for row in words]


def _output(*arguments: str, content: bytes = b"") -> str:
    program = shutil.which(os.environ.get(PROGRAM_VARIABLE, PROGRAM))
    if program is None:
        raise FileNotFoundError
    done = subprocess.run(
        [program, *arguments],
        input=content,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_THREAD_LIMIT": "1"},
        timeout=_LIMIT_S,
        check=True,
    )
    return done.stdout.decode(errors="replace")
