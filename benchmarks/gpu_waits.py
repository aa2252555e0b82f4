"""Whether a scan feeds an engine fast enough: the share of time in which it had fewer requests than a step takes.

    python -m benchmarks.gpu_waits [--images-per-s 200] [--num-images 4096]

Everything is as in a scan with vLLM: shards are read, JPEGs of sizes as on the web decoded and hashed, the model's
inputs made by vLLM's own front end and encoded for its engine process, rows written. Only the engine process is a
stand-in: a step takes what a GPU of that speed would take, and its answers are made up. So the figures are of this
machine's CPU.

Each turn is done twice, for comparison: with all inputs prepared by vLLM itself, one after the other in one thread, and
as a scan does it (`scoring.engines.vlm.vllm.inputs`).

Needs the environment of `make test-vllm`.
"""

import asyncio
import io
import os
import random
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click

from benchmarks.host_cost import NEEDED, jpegs
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, slices_left
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px
from scoring.runs.attempts import EngineTime
from scoring.runs.ledger import Ledger
from tests.records import engine_record, scanned_record

DIFFERENT = 1024
"""Pictures that are made; shards repeat them."""

ASPECTS = (1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9, 1.91)

IMAGES_PER_SHARD = 1024
STEP = ("max_num_batched_tokens=16384", "max_num_seqs=1024")
"""As vLLM chooses for an H100."""

NUM_VALUES = 3


class SimulatedEngine:
    """In place of the client of vLLM's engine process: takes requests as that does, and answers them step by step."""

    engine_ranks_managed = (0,)

    def __init__(self, images_per_s: float, max_tokens: int, max_requests: int, num_cached: int):
        """num_cached: tokens of each request that the prefix cache would know."""
        from vllm.v1.serial_utils import MsgpackEncoder

        self.resources = SimpleNamespace(engine_dead=False)
        self._encoder = MsgpackEncoder()
        self._images_per_s, self._max_tokens, self._max_requests = images_per_s, max_tokens, max_requests
        self._num_cached = num_cached
        self._waiting = deque[Any]()
        self._free_s = 0.0
        self.num_steps = 0

    async def collective_rpc_async(self, *_: Any) -> list[Any]:
        return []

    async def get_supported_tasks_async(self) -> tuple[str, ...]:
        return ("token_classify",)

    async def add_request_async(self, request: Any) -> None:
        self._encoder.encode(request)
        self._waiting.append(request)

    async def get_output_async(self) -> Any:
        from vllm.v1.engine import EngineCoreOutputs

        while not self._waiting:
            await asyncio.sleep(0.001)
        step = list(self._step())
        self.num_steps += 1
        self._free_s = max(time.monotonic(), self._free_s) + len(step) / self._images_per_s
        await asyncio.sleep(max(0.0, self._free_s - time.monotonic()))
        return EngineCoreOutputs(outputs=[self._answer(request) for request in step])

    def _step(self) -> Iterator[Any]:
        num_tokens = 0
        for _ in range(min(len(self._waiting), self._max_requests)):
            num_tokens += len(self._waiting[0].prompt_token_ids) - self._num_cached
            if num_tokens > self._max_tokens:
                return
            yield self._waiting.popleft()

    def _answer(self, request: Any) -> Any:
        import torch
        from vllm.v1.engine import EngineCoreOutput, FinishReason
        from vllm.v1.metrics.stats import PrefillStats

        num_tokens = len(request.prompt_token_ids)
        stats = PrefillStats(num_prompt_tokens=num_tokens, num_cached_tokens=self._num_cached)
        logits = torch.zeros(num_tokens - self._num_cached, NUM_VALUES)
        return EngineCoreOutput(
            request.request_id, [], pooling_output=logits, finish_reason=FinishReason.STOP, prefill_stats=stats
        )

    def shutdown(self, timeout: float | None = None) -> None:
        self.resources.engine_dead = True


@dataclass(frozen=True)
class Fed:
    """What came of a scan."""

    images_per_s: float
    cpu_ms: float
    """Of this process, for each picture."""

    time: EngineTime
    pictures_per_step: float


def simulate(images_per_s: float) -> list[SimulatedEngine]:
    """From now on vLLM starts simulated engines; returns the list of those that were started."""
    from vllm.v1.engine.core_client import EngineCoreClient

    started: list[SimulatedEngine] = []

    def start(vllm_config: Any, **_: Any) -> SimulatedEngine:
        scheduler = vllm_config.scheduler_config
        started.append(SimulatedEngine(images_per_s, scheduler.max_num_batched_tokens, scheduler.max_num_seqs, 0))
        return started[-1]

    EngineCoreClient.make_async_mp_client = start
    return started


@contextmanager
def prepared_by_vllm() -> Iterator[None]:
    """No picture becomes the pattern of others."""
    from scoring.engines.vlm.vllm import inputs

    with mock.patch.object(inputs, "_is_same", return_value=False):
        yield


def web_size(rng: random.Random) -> tuple[int, int]:
    """Draw a width of about 550 px, mostly between 220 and 1,340, and one of the usual aspects, or near it."""
    width = max(64, int(rng.lognormvariate(6.3, 0.45)))
    return width, max(64, int(width / (rng.choice(ASPECTS) * rng.lognormvariate(0, 0.08))))


def write_corpus(folder: Path, num_images: int) -> None:
    rng = random.Random(0)
    made = jpegs([web_size(rng) for _ in range(min(DIFFERENT, num_images))], rng)
    folder.mkdir()
    for first in range(0, num_images, IMAGES_PER_SHARD):
        numbers = range(first, min(num_images, first + IMAGES_PER_SHARD))
        with tarfile.open(folder / f"{first:08}.tar", "w") as tar:
            for number in numbers:
                member = tarfile.TarInfo(f"{number:08}.jpg")
                member.size = len(made[number % len(made)])
                tar.addfile(member, io.BytesIO(made[number % len(made)]))


def feed(corpus: Path, run: Path, model: Path, images_per_s: float, cpus: int, options: Sequence[str]) -> Fed:
    engines = simulate(images_per_s)
    source = open_source(str(corpus), None, None)
    settings = ScanSettings(
        source,
        place(str(run)),
        scanned_record("vllm", engine=engine_record(name="vllm", max_side_px=max_side_px(DEFAULT_MAX_PIXELS))),
        EngineOptions(model=str(model), dtype="bfloat16", vllm_option=tuple(options), cpus=cpus),
        "",
        num_decode_threads=cpus,
        description=EngineDescription("vllm", "", (), num_gpus=1, batches_at_once=2),
    )
    scanner = SliceScanner(settings)
    _know_prefix(scanner, engines[0])
    tasks = [task for shard in source.shards for task in slices_left(settings, shard, None, Ledger({}, {}))]
    lock, found = threading.Lock(), EngineTime()
    began_s, began_cpu_s = time.monotonic(), time.process_time()

    def scan(task: Any) -> int:
        nonlocal found
        counts = scanner.scan(task)
        if counts.failure:
            raise RuntimeError(counts.failure)
        with lock:
            found += counts.engine_time or EngineTime()
        return counts.num_rows

    with ThreadPoolExecutor(settings.slices_at_once) as threads:
        num_images = sum(threads.map(scan, tasks))
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    scanner.close()
    return Fed(num_images / took_s, cpu_s / num_images * 1e3, found, num_images / max(1, engines[0].num_steps))


def _know_prefix(scanner: SliceScanner, engine: SimulatedEngine) -> None:
    """As if the text before the picture were cached, in whole blocks."""
    running: Any = scanner._host._engine
    tokens = running.prompter.tokens(running._protocol.prompt).token_ids
    engine._num_cached = tokens.index(running.prompter.image_token_id) // 16 * 16


@click.command()
@click.option("--images-per-s", type=click.FloatRange(min=1), default=200, show_default=True, help="Of the engine.")
@click.option("--num-images", type=click.IntRange(min=64), default=4096, show_default=True)
@click.option("--cpus", type=click.IntRange(min=1), default=2, show_default=True, help="As --engine-cpus.")
@click.option("--vllm-option", "options", multiple=True, default=STEP, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
def main(images_per_s: float, num_images: int, cpus: int, options: tuple[str, ...], turns: int) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this environment has no {', '.join(missing)}; run it in the one that `make test-vllm` makes: "
            ".venv-vllm/bin/python -m benchmarks.gpu_waits"
        )
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    from tests.vllm.micro import make_checkpoint

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_checkpoint(folder / "micro-vl")
        write_corpus(folder / "corpus", num_images)
        for turn in range(turns):
            fed: dict[str, Fed] = {}
            for way, chosen in (("by vLLM", prepared_by_vllm), ("as scans do", nullcontext)):
                with chosen():
                    run = folder / f"run-{turn}-{len(fed)}"
                    fed[way] = feed(folder / "corpus", run, model, images_per_s, cpus, options)
                click.echo(f"{way:11} {line(fed[way], images_per_s, cpus)}")
            ratio = fed["as scans do"].cpu_ms / fed["by vLLM"].cpu_ms
            click.echo(f"{ratio:.2f} x the CPU time of preparation by vLLM")


def line(fed: Fed, images_per_s: float, cpus: int) -> str:
    why = ", ".join(f"{cause} {s / fed.time.seconds:.1%}" for cause, s in fed.time.short_s.items())
    return (
        f"{fed.images_per_s / images_per_s:.2f} x the {images_per_s:g} pictures/s of the engine; too few requests for "
        f"a step {fed.time.share_short or 0.0:.1%} of the time ({why or 'never'}); {fed.pictures_per_step:.0f} in a "
        f"step; {fed.cpu_ms:.1f} ms CPU a picture, so {cpus * 1e3 / fed.cpu_ms:.0f} pictures/s of {cpus} cores; "
        f"{fed.time.most_bytes_ahead / 2**20:.0f} MiB ahead"
    )


if __name__ == "__main__":
    main()
