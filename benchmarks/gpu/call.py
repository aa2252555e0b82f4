"""Runs the steps of a call, each in a process of its own with a limit of its own, and keeps each figure at once.

Needs nothing but Python: what the steps need is installed first, from the folder that `prepare` made. A step whose
figures are all there is not run again, so that a call which ran out of time can be repeated on the same machine.
"""

import argparse
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
CARRIED = FOLDER / "carried"
STEPS = {
    1: {"machine": 75, "prefill": 90, "reference": 60, "lora": 90, "corpus": 40},
    2: {"agree": 75, "bf16": 75, "scan": 90, "fp8": 75, "merged": 90, "two_engines": 100, "compiled": 150},
}
"""Call -> step, a function of `STEPS_IN`, -> seconds at most. What decides most comes first."""

STEPS_IN = {1: "benchmarks.gpu.transformers_steps", 2: "benchmarks.gpu.vllm_steps"}
CALL_S = {1: 230, 2: 250}
LEAST_S = 20
"""With less left of a call, no step begins."""

DRY_S = 1200
SITE, DONE, RESULTS, LOG = "site", "done", "results.jsonl", "log.txt"
MEMORY = re.compile(r"out of memory|OutOfMemory|memory on device|ALLOC_FAILED", re.IGNORECASE)
ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit)\b.*$", re.MULTILINE)
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_USE_DEEP_GEMM": "0",  # the slim vLLM has none
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a step has begun to use CUDA, which a fork of it could not
}
DRY_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@dataclass(frozen=True)
class Bench:
    """What a step is given."""

    step: str
    work: Path
    """A folder that stays on the machine between the calls."""

    out: Path
    """A folder for what is to be kept."""

    is_dry: bool

    def add(self, **figures: Any) -> None:
        """Keep one figure, or some that belong together."""
        line = {"step": self.step, **({"dry": True} if self.is_dry else {}), **figures}
        with (self.out / RESULTS).open("a") as results:
            results.write(json.dumps(line) + "\n")

    @contextmanager
    def measured(self, **what: Any) -> Iterator[dict[str, Any]]:
        """Keep what the block adds to these figures; that memory ran out is a figure, too."""
        figures = dict(what)
        try:
            yield figures
        except Exception as error:  # only to tell one kind of failure from all others
            if not MEMORY.search(f"{type(error).__name__}: {error}"):
                raise
            traceback.print_exc()
            figures |= {"out_of_memory": True, "reason": str(error)[:400]}
        self.add(**figures)


def _run_step(module: str, bench: Bench) -> None:
    """In the process of a step."""
    os.setsid()
    log = os.open(bench.out / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        import torch

        if not bench.is_dry and not torch.cuda.is_available():
            raise RuntimeError("no GPU is visible to torch")
        getattr(import_module(module), bench.step)(bench)
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # whatever vLLM's threads still do


def run(call: int, bench: Bench, limit_s: float) -> None:
    """Run one step to its end, or to the limit; a failure becomes a line."""
    log = bench.out / LOG
    with log.open("a") as file:
        file.write(f"== {bench.step}\n")
    begins = log.stat().st_size
    process = _context(call, bench.is_dry).Process(target=_run_step, args=(STEPS_IN[call], bench))
    began_s = time.monotonic()
    process.start()
    process.join(limit_s)
    is_late = process.is_alive()
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # vLLM's processes with it
    process.kill()  # where it has not got as far as a group of its own
    process.join()
    took_s = round(time.monotonic() - began_s, 1)
    if is_late:
        bench.add(failed=f"not at its end after {limit_s:.0f} s")
    elif process.exitcode:
        errors = ERROR.findall(log.read_bytes()[begins:].decode(errors="replace"))
        bench.add(failed=(errors or [f"ended with {process.exitcode}"])[-1][:400], took_s=took_s)
    else:
        (bench.work / DONE / bench.step).touch()
        bench.add(done=True, took_s=took_s)


def _context(call: int, is_dry: bool) -> Any:
    """New interpreters; in a dry run copies of one that has imported everything, which start at once."""
    if not is_dry:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*(["tests.vllm.warm_start"] if call == 2 else []), STEPS_IN[call]])
    return context


def install(carried: Path, work: Path) -> None:
    """Install what was carried into a folder of its own, where the steps find it. SystemExit if that is impossible."""
    site = work / SITE
    if archives := sorted(carried.glob("*.tar.xz")):
        wheels = sorted(map(str, carried.glob("*.whl")))
        options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target")
        if wheels and subprocess.run([sys.executable, "-m", "pip", "install", *options, site, *wheels]).returncode:
            raise SystemExit(f"pip cannot install {carried}: see above")
        for archive in archives:
            with tarfile.open(archive) as tar:
                tar.extractall(site, filter="data")
        # Else the first process that imports vLLM compiles it, while the GPU waits.
        subprocess.Popen([sys.executable, "-m", "compileall", "-q", "-j", "4", site], stdout=subprocess.DEVNULL)
    elif not (work / DONE / carried.name).exists():
        raise SystemExit(
            f"{carried} is not here or empty: run prepare where packages can be fetched, and carry the folder"
        )
    sys.path.insert(0, str(site))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))


def main(call: int, arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python3 -m benchmarks.gpu call-{call}")
    parser.add_argument("--dry", action="store_true", help="tiny models, on any machine")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"), help=f"for {RESULTS} and {LOG}; $OUT if set")
    parser.add_argument("--work", type=Path, default=Path("/tmp/privsieve-gpu"), help="stays between the calls")
    parser.add_argument("--carried", type=Path, help=f"made by prepare; {CARRIED.name}/CALL if not dry")
    given = parser.parse_args(arguments)
    if given.out is None:
        parser.error("give --out, or set OUT")
    began_s = time.monotonic()
    work: Path = given.work.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / RESULTS).touch()
    (work / DONE).mkdir(parents=True, exist_ok=True)
    if call == 2 and not (work / DONE / "1").exists():
        raise SystemExit("call 1 left nothing on this machine: it is another one. Run call 1 again, and at once call 2")
    os.environ |= ENVIRONMENT | {"VLLM_CACHE_ROOT": str(work / "vllm"), "TRITON_CACHE_DIR": str(work / "triton")}
    if given.dry:
        os.environ |= DRY_ENVIRONMENT
    carried = given.carried or (None if given.dry else CARRIED / str(call))
    if carried is not None:
        install(carried, work)
        print(f"installed after {time.monotonic() - began_s:.0f} s", flush=True)
    (work / DONE / str(call)).touch()
    for step, limit_s in STEPS[call].items():
        bench = Bench(step, work, given.out.resolve(), given.dry)
        left_s = DRY_S if given.dry else CALL_S[call] - (time.monotonic() - began_s)
        if (work / DONE / step).exists():
            print(f"{step}: done by an earlier call", flush=True)
        elif left_s < LEAST_S:
            bench.add(failed="no time was left in this call")
        else:
            print(f"{step}: begins after {time.monotonic() - began_s:.0f} s", flush=True)
            run(call, bench, left_s if given.dry else min(limit_s, left_s))
    print((given.out / RESULTS).read_text(), flush=True)
    if failed := [step for step in STEPS[call] if not (work / DONE / step).exists()]:
        raise SystemExit(f"not measured: {', '.join(failed)}; {RESULTS} says why")
