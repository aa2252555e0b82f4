"""Starts img2dataset in its own environment and follows it to its end.

img2dataset needs older pandas, OpenCV and webdataset than privsieve has. Its environment is made once with venv and
pip, with the user's own settings of pip; the versions are those of pins.txt.
"""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import BaseModel, ConfigDict, InstanceOf

from ingest.errors import EngineError, IncompleteError
from ingest.storage.place import Place
from jobs.console.requests import Count, Option, checked_request
from jobs.fetching.outcome import SELECTED, STATS
from jobs.runtime.progress import Feedback
from scoring.sql.names import location

IMG2DATASET = "1.47.0"
STAMP = "privsieve.txt"
"""Marks the folder as ours and lists what is installed in it: nothing at first, everything once pip is done."""

LOG = "pip.log"
REQUESTS = Option(heading="Requests")
PROGRAM = Path(__file__).parent / "program.py"


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "privsieve" / f"img2dataset-{IMG2DATASET}"


def ensured_python(folder: Path, out: Place, may_install: Callable[[str], bool]) -> Path:
    """Return the Python of the environment, which is made or completed if necessary. EngineError if that fails."""
    stamp, python = folder / STAMP, folder / "bin" / "python"
    wanted = _requirements(out)
    try:
        installed = stamp.read_text(errors="replace").splitlines() if stamp.exists() else []
        if folder.exists() and not stamp.exists() and any(folder.iterdir()):
            raise EngineError(f"--environment {folder} was not made by privsieve; give a new folder, or leave it out")
        if set(wanted) <= set(installed):
            return python
        if not may_install(f"fetch needs img2dataset, in an environment of its own: about 0.8 GB in {folder}, once"):
            raise EngineError("nothing is downloaded without img2dataset; --environment names another folder for it")
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text("")
        # Isolated (-I): a file named pip.py in the folder of the command must not run.
        install = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", *wanted]
        for command in ([sys.executable, "-I", "-m", "venv", folder], install):
            with open(folder / LOG, "ab") as log:
                done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if done.returncode:
                raise EngineError(
                    f"the environment of img2dataset cannot be made: {' '.join(map(str, command[2:5]))} failed; "
                    f"{folder / LOG} says why, then give the same command again"
                )
        stamp.write_text("\n".join(wanted))
    except OSError as error:
        raise EngineError(f"the environment of img2dataset cannot be made in {folder}: {error.strerror}") from None
    return python


def _requirements(out: Place) -> list[str]:
    """Return the pinned packages, and the fsspec driver that reaches `out`, in the version used here."""
    pins = files("jobs.fetching").joinpath("pins.txt").read_text(encoding="utf-8").splitlines()
    package = type(out.fs).__module__.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(package, []) if package != "fsspec" else []
    drivers = [f"{name}=={importlib.metadata.version(name)}" for name in names]
    return [line for line in pins if line and not line.startswith("#")] + drivers


@checked_request
class FetchResources:
    """What does the work. Changes nothing in the shards."""

    processes: Annotated[Count | None, REQUESTS] = None
    """Shards at once; default one per CPU core."""

    threads: Annotated[Count, REQUESTS] = 16
    """Requests per process."""

    environment: Annotated[InstanceOf[Path] | None, Option(kind=click.Path(path_type=Path))] = None
    """Folder for an environment with img2dataset, about 0.8 GB; made once."""

    verbose: bool = False
    """Show what img2dataset says."""


class Selection(BaseModel):
    """`selected/fetch.json`, written after the files of the selection: it says that they are complete."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: dict[str, Any]
    """Everything that decides which bytes the shards hold: the fields of `FetchRequest`, and versions."""

    num_rows: int
    columns: tuple[str, ...]


def download(
    python: Path, out: Place, selection: Selection, num_done: int, resources: FetchResources, feedback: Feedback
) -> None:
    """Download all shards that are not finished. IncompleteError if the program failed; the shards that it finished
    before stay."""
    num_rows, num_per_shard = selection.num_rows, selection.settings["images_per_shard"]
    with tempfile.TemporaryFile() as errors:
        stderr = None if resources.verbose else errors
        program = _program(python, _settings(out, selection, resources), stderr)
        with program as process, feedback.meter("fetch", num_rows) as bar:
            bar.resume(num_done, num_rows)
            while process.poll() is None:
                time.sleep(0.5)
                num_shards = sum(name.endswith(STATS) for name in out.names())
                bar.advance(max(0, min(num_rows, num_per_shard * num_shards) - bar.num_done))
        errors.seek(0)
        # Only the kind of the error is shown: its text may hold URLs and captions.
        kinds = re.findall(rb"^([A-Za-z_]\w*\.[\w.]+|\w+(?:Error|Exception)): ", errors.read(), re.MULTILINE)
    if process.returncode:
        kind = f" ({kinds[-1].decode()})" if kinds else ""
        raise IncompleteError(
            f"img2dataset ended with code {process.returncode}{kind}; --verbose shows what it says; "
            "give the same command again to continue"
        )


def _settings(out: Place, selection: Selection, resources: FetchResources) -> dict[str, Any]:
    """Return what `program.py` reads; `download`: the arguments of img2dataset.download."""
    given, folder = selection.settings, location(out)
    return {
        "bounds": {name: given[name] for name in ("max_bytes", "timeout_seconds", "private_addresses")},
        # The original bytes under the name .jpg, nothing resized or re-encoded.
        "download": {
            "url_list": f"{folder}/{SELECTED}",
            "input_format": "parquet",
            "url_col": "url",
            "caption_col": "caption" if "caption" in selection.columns else None,
            "save_additional_columns": [name for name in selection.columns if name not in ("url", "caption")],
            "output_folder": folder,
            "output_format": "webdataset",
            "number_sample_per_shard": given["images_per_shard"],
            "incremental_mode": "incremental",
            "processes_count": resources.processes or os.cpu_count() or 1,
            "thread_count": resources.threads,
            "timeout": given["timeout_seconds"],
            "retries": 0,
            "user_agent_token": given["user_agent_token"],
            # Of X-Robots-Tag: the image is not kept.
            "disallowed_header_directives": ["noai", "noimageai", "noindex", "noimageindex", "none"],
            "disable_all_reencoding": True,
            "resize_mode": "no",
            "extract_exif": False,
            "compute_hash": "sha256",
        },
    }


@contextmanager
def _program(python: Path, settings: dict[str, Any], errors: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Start `program.py` as a process that ends when this one does, however that ends."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    quiet = {"WANDB_MODE": "disabled", "NO_ALBUMENTATIONS_UPDATE": "1"}  # they would ask the network
    process = subprocess.Popen(
        [str(python), "-I", str(PROGRAM), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=errors or sys.stderr,
        stderr=errors or sys.stderr,
        env=inherited | quiet,
        process_group=0,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        with suppress(ProcessLookupError):  # there are processes left only if it was killed
            os.killpg(process.pid, signal.SIGKILL)
