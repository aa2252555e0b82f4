"""The environment of img2dataset, which needs older pandas, OpenCV and webdataset than privsieve has.

Made once with venv and pip, with the user's own settings of pip; the versions are those of pins.txt.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from ingest.errors import EngineError
from ingest.storage.place import Place

IMG2DATASET = "1.47.0"
STAMP = "privsieve.json"
"""Marks the folder as ours and lists what is installed in it: nothing at first, everything once pip is done."""
LOG = "pip.log"


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "privsieve" / f"img2dataset-{IMG2DATASET}"


def requirements(out: Place) -> list[str]:
    """img2dataset, the same Ray as here, and the fsspec driver that reaches `out`, in the version used here."""
    wanted = [f"img2dataset=={IMG2DATASET}", f"ray=={importlib.metadata.version('ray')}"]
    wanted.append('standard-imghdr; python_version >= "3.13"')  # the module left Python's own library
    return wanted + _drivers(out)


def _drivers(out: Place) -> list[str]:
    package = type(out.fs).__module__.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(package, []) if package != "fsspec" else []
    return [f"{name}=={importlib.metadata.version(name)}" for name in names]


def cluster_requirements(out: Place) -> list[str]:
    """What a Ray cluster installs for its workers; it brings its own Ray."""
    text = resources.files("jobs.fetch").joinpath("pins.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")] + _drivers(out)


def python_of(folder: Path, wanted: list[str], notice: Callable[[str], None]) -> Path:
    """The Python of the environment, which is made or completed if necessary. EngineError if that fails."""
    python = folder / "bin" / "python"
    stamp = folder / STAMP
    installed: list[str] | None = None
    if stamp.exists():
        try:
            installed = json.loads(stamp.read_bytes())["requirements"]
        except (ValueError, KeyError, TypeError):
            installed = []
    elif folder.exists() and any(folder.iterdir()):
        raise EngineError(f"--environment {folder} was not made by privsieve; give a new folder, or leave it out")
    if installed is None or not set(wanted) <= set(installed):
        notice(f"making the environment of img2dataset in {folder} (once, about 1.1 GB)")
        _make(folder, python, wanted)
    return python


def _make(folder: Path, python: Path, wanted: list[str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _stamp(folder, [])
        with open(folder / LOG, "wb") as log, resources.as_file(resources.files("jobs.fetch") / "pins.txt") as pins:
            # Isolated (-I): a file named pip.py in the folder of the command must not run.
            install = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "-c", pins, *wanted]
            for command in ([sys.executable, "-I", "-m", "venv", folder], install):
                done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                if done.returncode:
                    raise EngineError(
                        f"the environment of img2dataset cannot be made: {' '.join(map(str, command[2:5]))} failed; "
                        f"{folder / LOG} says why, then give the same command again"
                    )
        _stamp(folder, wanted)
    except OSError as error:
        raise EngineError(f"the environment of img2dataset cannot be made in {folder}: {error.strerror}") from None


def _stamp(folder: Path, installed: list[str]) -> None:
    (folder / STAMP).write_text(json.dumps({"requirements": installed}) + "\n", encoding="utf-8")
