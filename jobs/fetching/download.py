"""Starts img2dataset in its own environment and follows it to its end.

img2dataset needs older pandas, OpenCV and webdataset than privsieve has. Its environment is made once with venv and
pip, with the user's own settings of pip; the versions are those of pins.txt.
"""

import importlib.metadata
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ingest.errors import EngineError, IncompleteError
from ingest.storage.place import Place
from jobs.fetching.outcome import SELECTED, num_newly_finished_rows
from jobs.fetching.selected import SelectionRecord
from jobs.runtime.progress import Feedback
from scoring.sql.names import location

IMG2DATASET = "1.47.0"
STAMP = "privsieve.json"
"""Marks the folder as ours and lists what is installed in it: nothing at first, everything once pip is done."""
LOG = "pip.log"

PROGRAM = Path(__file__).parent / "program.py"
LOCAL = "local"
"""The Ray address of a Ray that the program starts for itself."""
OPT_OUT = ("noai", "noimageai", "noindex", "noimageindex", "none")
"""Directives of X-Robots-Tag that img2dataset obeys: the image is not kept."""


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "privsieve" / f"img2dataset-{IMG2DATASET}"


def requirements(out: Place) -> list[str]:
    """Return img2dataset, the same Ray as here, and the fsspec driver that reaches `out`, in the version used here."""
    wanted = [f"img2dataset=={IMG2DATASET}", f"ray=={importlib.metadata.version('ray')}"]
    wanted.append('standard-imghdr; python_version >= "3.13"')  # the module left Python's own library
    return wanted + _drivers(out)


def _drivers(out: Place) -> list[str]:
    package = type(out.fs).__module__.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(package, []) if package != "fsspec" else []
    return [f"{name}=={importlib.metadata.version(name)}" for name in names]


def cluster_requirements(out: Place) -> list[str]:
    """Return what a Ray cluster installs for its workers; it brings its own Ray."""
    text = resources.files("jobs.fetching").joinpath("pins.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")] + _drivers(out)


def ensured_python(folder: Path, wanted: list[str], notice: Callable[[str], None]) -> Path:
    """Return the Python of the environment, which is made or completed if necessary. EngineError if that fails."""
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
        with open(folder / LOG, "wb") as log, resources.as_file(resources.files("jobs.fetching") / "pins.txt") as pins:
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


@dataclass(frozen=True)
class Workers:
    """Who downloads. Changes nothing in the shards."""

    ray_address: str
    """Address of a cluster, or `LOCAL`."""

    processes: int | None
    """Shards at the same time; None for one per CPU core. Only where `ray_address` is `LOCAL`."""

    threads: int
    """Requests at the same time, in each process."""

    shows_messages: bool
    """Whether img2dataset's own messages go to stderr."""


def download(
    python: Path, out: Place, selected: SelectionRecord, done: dict[str, int], workers: Workers, feedback: Feedback
) -> None:
    """Download all shards that are not in `done` (shard -> rows).

    IncompleteError if the program failed; the shards that it finished before stay.
    """
    settings = _settings(out, selected, workers)
    with tempfile.TemporaryFile() as errors:
        stderr = None if workers.shows_messages else errors
        with _program(python, settings, stderr) as process, feedback.meter("fetch", selected.num_rows) as bar:
            bar.resume(sum(done.values()), selected.num_rows)
            while process.poll() is None:
                time.sleep(0.5)
                bar.advance(num_newly_finished_rows(out, done))
        errors.seek(0)
        # Only the kind of the error is shown: its text may hold URLs and captions.
        kinds = re.findall(rb"^([A-Za-z_]\w*\.[\w.]+|\w+(?:Error|Exception)): ", errors.read(), re.MULTILINE)
    if process.returncode:
        kind = f" ({kinds[-1].decode()})" if kinds else ""
        raise IncompleteError(
            f"img2dataset ended with code {process.returncode}{kind}; --verbose shows what it says; "
            "give the same command again to continue"
        )


def _settings(out: Place, selected: SelectionRecord, workers: Workers) -> dict[str, Any]:
    """Return what `program.py` reads; `download`: the arguments of img2dataset.download."""
    record, folder, is_local = selected.settings, location(out), workers.ray_address == LOCAL
    ray: dict[str, Any] = {
        "address": workers.ray_address,
        "log_to_driver": workers.shows_messages,
        "logging_level": logging.ERROR,
    }
    if is_local:
        ray["num_cpus"] = workers.processes or os.cpu_count() or 1
    return {
        "bounds": {
            "max_bytes": record.max_bytes,
            "timeout_seconds": record.timeout_seconds,
            "private_addresses": record.private_addresses,
        },
        "ray": ray,
        "runtime_env": {} if is_local else {"pip": cluster_requirements(out)},
        # The original bytes under the name .jpg, nothing resized or re-encoded.
        "download": {
            "url_list": f"{folder}/{SELECTED}",
            "input_format": "parquet",
            "url_col": "url",
            "caption_col": "caption" if "caption" in selected.columns else None,
            "save_additional_columns": [name for name in selected.columns if name not in ("url", "caption")],
            "output_folder": folder,
            "output_format": "webdataset",
            "number_sample_per_shard": record.images_per_shard,
            "incremental_mode": "incremental",
            "distributor": "ray",
            "thread_count": workers.threads,
            "timeout": record.timeout_seconds,
            "retries": record.retries,
            "user_agent_token": record.user_agent_token,
            "disallowed_header_directives": list(OPT_OUT),
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
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "WANDB_MODE": "disabled", "NO_ALBUMENTATIONS_UPDATE": "1"}
    if settings["ray"]["address"] == LOCAL:
        quiet["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on the loopback interface only
    process = subprocess.Popen(
        [str(python), "-I", str(PROGRAM), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=errors or sys.stderr,
        stderr=errors or sys.stderr,
        env=inherited | quiet,
        process_group=0,
        cwd=python.parent,  # Ray's workers import from the folder they start in, which others may be able to write
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        with suppress(ProcessLookupError):  # there are processes left only if it was killed
            os.killpg(process.pid, signal.SIGKILL)
