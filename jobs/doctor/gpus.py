"""GPUs, their driver, and whether a model fits."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.doctor.findings import ProblemError
from jobs.doctor.machine import installed_version
from jobs.doctor.processes import PROCESS_LIMIT_S, python_process
from scoring.engine_facts import LocalModel

TORCH = "import torch; print(torch.__version__, torch.version.cuda or 'none', torch.cuda.is_available())"


@dataclass(frozen=True)
class Gpu:
    name: str

    driver: str
    """Version of the driver."""

    memory_mib: int
    """As the driver counts; 0 if it does not say."""

    free_mib: int
    """As the driver counts; more than any GPU has if it does not say."""


def check_gpu(engine: str, model: LocalModel | None) -> str:
    """model: None for an engine that uses no GPU."""
    found = gpus()
    if model is None:
        return f"{_listed(found)}; the {engine} engine needs none"
    if not found:
        if model.without_gpu is not None:
            raise ProblemError(f"none found, and {engine} needs one: {model.without_gpu}")
        return "none found; the model runs on the CPU, slowly"
    if model.num_gpus > len(found):
        raise ProblemError(f"{_listed(found)}, but --tensor-parallel-size is {model.num_gpus}; lower it")
    needed_mib = model.weight_bytes / model.num_gpus / 2**20
    if needed_mib > (free_mib := min(gpu.free_mib for gpu in found)):
        raise ProblemError(
            f"{_listed(found)}, of which {free_mib:,} MiB are free; the weights take {needed_mib:,.0f} MiB on each: "
            "stop other programs on it, raise --tensor-parallel-size or choose a smaller model"
        )
    return f"{_listed(found)}; {_seen_by_torch(found[0]) if installed_version('torch') else 'torch is not installed'}"


def gpus() -> list[Gpu]:
    command = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total,memory.free",
        "--format=csv,noheader,nounits",
    ]
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_LIMIT_S, check=False)
    if done.returncode:
        raise ProblemError(
            f"nvidia-smi fails ({done.returncode}): the driver does not work; install it again or reboot"
        )
    return gpus_of(done.stdout)


def gpus_of(listed: str) -> list[Gpu]:
    """Reads what nvidia-smi lists: name, driver, memory and free memory in MiB, one line per GPU.

    A GPU that shares the machine's memory shows "[N/A]": then memory is never the reason of a problem.
    """
    found = []
    for line in listed.strip().splitlines():
        name, driver, *memory = (part.strip() for part in line.rsplit(",", 3))
        total, free = (int(mib) if mib.isdigit() else None for mib in memory)
        found.append(Gpu(name, driver, total or 0, 2**40 if free is None else free))
    return found


def _listed(found: Sequence[Gpu]) -> str:
    if not found:
        return "none found"
    return f"{len(found)} x {found[0].name}, {found[0].memory_mib:,} MiB, driver {found[0].driver}"


def _seen_by_torch(gpu: Gpu) -> str:
    done = python_process("-c", TORCH)
    torch, cuda, is_available = done.stdout.split()[-3:] if not done.returncode else ("torch", "unknown", "False")
    if is_available != "True":
        raise ProblemError(
            f"torch {torch} (for CUDA {cuda}) cannot use it with driver {gpu.driver}; install the torch for that "
            "driver, or a newer driver"
        )
    return f"torch {torch} for CUDA {cuda} sees it"
