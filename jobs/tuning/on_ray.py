"""Tuning in several processes of a Ray cluster, with Ray Train.

All machines must see the folder of the adapter, the training set and the model under the same paths: checkpoints are
written there, and every process reads them.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.errors import EngineError, IncompleteError, PrivsieveError, StorageError
from ingest.storage.place import place
from jobs.runtime.cluster import ray_session
from jobs.runtime.progress import Feedback, Meter
from scoring.engines.vlm.checkpoint import checkpoint

if TYPE_CHECKING:
    from scoring.tuning.outcome import Trained
    from scoring.tuning.training import TrainingRequest

STATE = "ray"
"""Folder of Ray Train's own records, next to the checkpoints."""

PROGRESS = "progress"
"""File next to the checkpoints: the steps done and all steps, written by the first process."""

SECONDS_PER_LOOK = 1.0


def train_on_ray(
    request: "TrainingRequest", num_processes: int, ray_address: str | None, feedback: Feedback
) -> "Trained":
    """Train as `scoring.tuning.training.train`, on one GPU per process, or on CPUs if the cluster has no GPU.

    IncompleteError if a process dies: then the same request continues at the last checkpoint.
    """
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from scoring.tuning.training import CHECKPOINTS

    model_sha256 = request.checkpoint.digest()

    # Workers have their own working folder.
    work = replace(
        request,
        folder=request.folder.absolute(),
        training_set=replace(request.training_set, folder=request.training_set.folder.absolute()),
        checkpoint=replace(request.checkpoint, folder=request.checkpoint.folder.absolute()),
    )
    progress = work.folder / CHECKPOINTS / PROGRESS
    with ray_session(ray_address):
        resources = ray.cluster_resources()
        on_gpu = resources.get("GPU", 0) > 0
        kind = "GPU" if on_gpu else "CPU"
        if resources.get(kind, 0) < num_processes:
            raise PrivsieveError(
                f"--num-gpus {num_processes}: the cluster has {resources.get(kind, 0):g} {kind}s; give less, or "
                "--ray-address"
            )
        place(str(progress)).write(b"0 0")
        trainer = TorchTrainer(
            _work,
            train_loop_config={
                "request": work,
                "num_processes": num_processes,
                "progress": progress,
                "model": model_sha256,
            },
            scaling_config=ScalingConfig(num_workers=num_processes, use_gpu=on_gpu),
            run_config=RunConfig(name=STATE, storage_path=str(work.folder / CHECKPOINTS)),
        )
        with _shown(progress, request.recipe.batch_size, feedback):
            try:
                result = trainer.fit()
            except ray.train.TrainingFailedError as error:
                raise _in_one_line(error) from None
    trained: Trained = result.return_value
    return trained


def _work(config: dict[str, Any]) -> "Trained":
    """Train in each process."""
    from ray import train

    from scoring.tuning.training import train as tuned

    request, progress = config["request"], config["progress"]
    if not progress.is_file():
        raise StorageError(
            f"{request.folder}: a machine of the cluster does not see this folder; with --num-gpus, --out must be on "
            "storage that all machines share under the same path"
        )
    if request.checkpoint.is_fetched:  # each machine has a cache of its own
        model = checkpoint(request.checkpoint.given, with_weights=True)
        if model.digest() != config["model"]:
            raise EngineError(f"{model.name} was changed since the tuning began; begin it anew in another --out")
        request = replace(request, checkpoint=model)
    is_first = train.get_context().get_world_rank() == 0

    def on_step(step: int, steps: int) -> None:
        if is_first:
            place(str(progress)).write(f"{step} {steps}".encode())

    return tuned(request, on_step, config["num_processes"])


class StepsDone:
    """Shows how many pictures the training has seen. In a continued run only the rest counts, so that the time left is
    right."""

    def __init__(self, meter: Meter, batch_size: int):
        self._meter, self._batch_size = meter, batch_size
        self._done: int | None = None

    def show(self, step: int, steps: int) -> None:
        if self._done is None:
            self._done = step - 1
            self._meter.expect((steps - self._done) * self._batch_size)
        self._meter.advance((step - self._done) * self._batch_size)
        self._done = step


@contextmanager
def _shown(progress: Path, batch_size: int, feedback: Feedback) -> Iterator[None]:
    """Show the progress that the first process writes, while the block runs."""
    is_over = threading.Event()
    with feedback.meter("tuning", None) as meter:

        def look() -> None:
            steps_done = StepsDone(meter, batch_size)
            while not is_over.wait(SECONDS_PER_LOOK):
                step, _, steps = progress.read_text().partition(" ")
                if int(step):
                    steps_done.show(int(step), int(steps))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            is_over.set()
            looking.join()


def _in_one_line(error: Exception) -> PrivsieveError:
    """Return our own error, if a process raised one; else one with the kind of the failure."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    for _, failure in sorted(failures.items()):
        if isinstance(cause := getattr(failure, "_base_exc", failure), PrivsieveError):
            return cause
    kind = next((type(failure).__name__ for failure in failures.values()), type(error).__name__)
    return IncompleteError(f"a tuning process ended ({kind}); run the same command again to continue")
