"""What a check finds; the checks of this machine (Python, packages, memory, GPUs), of the source and the run."""

import os
import platform
import posixpath
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires
from importlib.metadata import version as package_version

from packaging.requirements import Requirement

from ingest.errors import Fault, PrivsieveError, SourceError, StorageError, number_of
from ingest.formats import Source, open_source
from ingest.images.decode import decode
from ingest.images.pixels import ImageLimits
from ingest.machine import available_bytes, install_command, num_cores
from ingest.sample import Sample
from ingest.storage.place import PART, Place, place
from scoring.engine_facts import LocalModel
from scoring.runs import RUN_RECORD
from scoring.runs.record import record_in, refuse_other_files


class ProblemError(Exception):
    """What is wrong and what to do, in one line."""


@dataclass(frozen=True)
class CheckResult:
    check: str
    """Name of the check, a word."""

    is_ok: bool

    text: str
    """What was found; of a problem, also what to do."""


def finding(name: str, check: Callable[[], str]) -> CheckResult:
    """Run a check."""
    try:
        return CheckResult(name, True, check())
    except (ProblemError, PrivsieveError) as error:
        return CheckResult(name, False, str(error))
    except (OSError, subprocess.SubprocessError, PackageNotFoundError) as error:
        return CheckResult(name, False, f"could not be checked ({type(error).__name__})")


PROCESS_LIMIT_S = 120


def python_process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the same Python with the same modules to its end."""
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT_S,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )


GIB = 2**30


def check_python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def check_cores() -> str:
    return f"{number_of(num_cores(), 'core')} for this process, {os.cpu_count()} of the machine"


def check_packages(extra: str | None) -> str:
    """Check everything that privsieve needs, and what its extra adds."""
    known_extra = extra if extra in (metadata("privsieve").get_all("Provides-Extra") or []) else ""
    num_fitting, wrong = 0, []
    for requirement in map(Requirement, requires("privsieve") or []):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": known_extra or ""}):
            continue
        version = installed_version(requirement.name)
        if version is not None and requirement.specifier.contains(version, prereleases=True):
            num_fitting += 1
        else:
            wrong.append(f"{requirement.name} is {version or 'not installed'}, wanted {requirement.specifier}")
    if wrong:
        how = install_command(known_extra) if known_extra else "install privsieve again"
        raise ProblemError(f"{'; '.join(wrong)}: {how}")
    return f"privsieve {package_version('privsieve')} and the {num_fitting} packages that it needs"


def installed_version(package: str) -> str | None:
    try:
        return package_version(package)
    except PackageNotFoundError:
        return None


def check_memory(model_bytes: int) -> str:
    """Check the free memory. model_bytes: of a model that runs on the CPU."""
    free, needed = available_bytes(), max(2 * GIB, model_bytes)
    sentence = f"{free / GIB:.1f} GiB available, {needed / GIB:.1f} GiB wanted for one engine"
    if free < needed:
        raise ProblemError(f"{sentence}; end other programs or take a larger machine")
    return sentence


@dataclass(frozen=True)
class Gpu:
    name: str

    driver: str
    """Version of the driver."""

    memory_mib: int
    """As the driver counts; 0 if it does not say."""

    free_mib: int
    """As the driver counts; more than any GPU has if it does not say."""


def check_gpu(engine: str, model: LocalModel | None, share: float = 1.0) -> str:
    """Check the GPUs that this process may use: Ray names them to a task. model: None for an engine that uses no GPU.
    share: what the engine may take of each GPU, from `--engine-gpus` below 1."""
    here = gpus()
    if model is None:
        return f"{_in_words(here)}; the {engine} engine needs none"
    if not here:
        if model.without_gpu is not None:
            raise ProblemError(f"none found, and {engine} needs one: {model.without_gpu}")
        return "none found; the model runs on the CPU, slowly"
    if model.num_gpus > len(here):
        raise ProblemError(f"{_in_words(here)}, but --tensor-parallel-size is {model.num_gpus}; lower it")
    needed_mib = model.weight_bytes / model.num_gpus / 2**20
    shared_mib = min(share * gpu.memory_mib if gpu.memory_mib else needed_mib for gpu in here)
    if needed_mib > shared_mib:
        raise ProblemError(
            f"{_in_words(here)}; the weights take {needed_mib:,.0f} MiB, more than --engine-gpus {share:g} of it: "
            "give a larger share, or choose a smaller model"
        )
    if needed_mib > (free_mib := min(gpu.free_mib for gpu in here)):
        raise ProblemError(
            f"{_in_words(here)}, of which {free_mib:,} MiB are free; the weights take {needed_mib:,.0f} MiB on each: "
            "stop other programs on it, raise --tensor-parallel-size or choose a smaller model"
        )
    return f"{_in_words(here)}; {_seen_by_torch(here[0]) if installed_version('torch') else 'torch is not installed'}"


def gpus() -> list[Gpu]:
    """Return the GPUs that this process may use, by `CUDA_VISIBLE_DEVICES` if that is set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    command = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total,memory.free",
        "--format=csv,noheader,nounits",
        *([] if visible is None else [f"--id={visible}"]),
    ]
    hides_all = visible is not None and visible.strip() in ("", "-1", "NoDevFiles")
    if hides_all or shutil.which(command[0]) is None:
        return []
    process = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_LIMIT_S, check=False)
    if process.returncode:
        raise ProblemError(
            f"nvidia-smi fails ({process.returncode}): the driver does not work; install it again or reboot"
        )
    return gpus_of(process.stdout)


def gpus_of(lines: str) -> list[Gpu]:
    """Read what nvidia-smi lists: name, driver, memory and free memory in MiB, one line per GPU. A GPU that shares the
    machine's memory shows "[N/A]": then memory is never the reason of a problem."""
    gpus = []
    for line in lines.strip().splitlines():
        name, driver, *memory = (part.strip() for part in line.rsplit(",", 3))
        total, free = (int(mib) if mib.isdigit() else None for mib in memory)
        gpus.append(Gpu(name, driver, total or 0, 2**40 if free is None else free))
    return gpus


def _in_words(gpus_: Sequence[Gpu]) -> str:
    if not gpus_:
        return "none found"
    return f"{len(gpus_)} x {gpus_[0].name}, {gpus_[0].memory_mib:,} MiB, driver {gpus_[0].driver}"


def _seen_by_torch(gpu: Gpu) -> str:
    code = "import torch; print(torch.__version__, torch.version.cuda or 'none', torch.cuda.is_available())"
    process = python_process("-c", code)
    torch, cuda, is_available = process.stdout.split()[-3:] if not process.returncode else ("torch", "unknown", "False")
    if is_available != "True":
        raise ProblemError(
            f"torch {torch} (for CUDA {cuda}) cannot use it with driver {gpu.driver}; install the torch for that "
            "driver, or a newer driver"
        )
    return f"torch {torch} for CUDA {cuda} sees it"


def check_source(url: str) -> str:
    corpus = open_source(url, None, None)
    sample = first_sample(corpus)
    if sample is None:
        raise SourceError(f"{url} holds no sample in {number_of(len(corpus.shards), 'shard')}")
    image = sample.fault or decode(sample.encoded, ImageLimits())
    first = f"is quarantined ({image.reason})" if isinstance(image, Fault) else "can be read"
    return f"{corpus.format}, {number_of(len(corpus.shards), 'shard')}; the first sample {first}"


def first_sample(source: Source) -> Sample | None:
    """Read the first sample of the first shard that has one; None if no shard has. SourceError, StorageError."""
    slices = (slice_ for shard in source.shards for slice_ in source.slices(shard) if slice_.locators)
    return next((sample for slice_ in slices for sample in source.read(slice_)), None)


def check_run(url: str) -> str:
    """Write, read and remove a small file where a scan would write too."""
    root = place(url)
    is_run = root.at(RUN_RECORD).exists()
    if is_run:
        record_in(root)
    else:
        refuse_other_files(root)
    probe = root.at(f"doctor-{uuid.uuid4().hex}{PART}")
    with new_folders_removed(root):
        try:
            probe.write(b"privsieve doctor")
            if probe.read() != b"privsieve doctor":
                raise StorageError(f"{url} returns other bytes than were written; choose another store for --run")
        finally:
            probe.remove()
    return "an existing run, can be written" if is_run else "new, can be written"


@contextmanager
def new_folders_removed(root: Place) -> Iterator[None]:
    """Remove the local folders that the block created; object stores have none."""
    missing = []
    folder = root.path
    while root.is_local and not os.path.exists(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    try:
        yield
    finally:
        for created in missing:
            with suppress(OSError):
                os.rmdir(created)
