"""Tuning in several processes of a Ray cluster, with Ray Train. Its machines must share the folder of the adapter."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.errors import IncompleteError, PrivsieveError
from jobs.runtime.cluster import ray_session
from jobs.runtime.feedback import Feedback

if TYPE_CHECKING:
    from scoring.tuning.outcome import Trained
    from scoring.tuning.training import TrainingRequest

RESULT = "trained"
STATE = "ray"
"""Folder of Ray Train's own records, beside the checkpoints."""


def train_on_ray(
    request: "TrainingRequest", num_processes: int, ray_address: str | None, feedback: Feedback
) -> "Trained":
    """As `scoring.tuning.training.train`, on one GPU per process, or on CPUs if the cluster has no GPU."""
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from scoring.tuning.training import CHECKPOINTS

    # Workers have their own working folder.
    work = replace(
        request,
        folder=request.folder.absolute(),
        training_set=replace(request.training_set, folder=request.training_set.folder.absolute()),
        checkpoint=replace(request.checkpoint, folder=request.checkpoint.folder.absolute()),
    )
    with ray_session(ray_address):
        has = ray.cluster_resources()
        on_gpu = has.get("GPU", 0) > 0
        kind = "GPU" if on_gpu else "CPU"
        if has.get(kind, 0) < num_processes:
            raise PrivsieveError(
                f"--num-gpus {num_processes}: the cluster has {has.get(kind, 0):g} {kind}s; give less, or --ray-address"
            )
        trainer = TorchTrainer(
            _work,
            train_loop_config={"request": work, "num_processes": num_processes},
            scaling_config=ScalingConfig(num_workers=num_processes, use_gpu=on_gpu),
            run_config=RunConfig(name=STATE, storage_path=str(work.folder / CHECKPOINTS)),
        )
        with feedback.meter("tuning", None):
            try:
                result = trainer.fit()
            except ray.train.TrainingFailedError as error:
                raise IncompleteError(_reason(error)) from None
    metrics = result.metrics or {}
    trained: Trained = metrics[RESULT]
    return trained


def _work(config: "dict[str, object]") -> None:
    """In every process."""
    from ray import train

    from scoring.tuning.training import TrainingRequest
    from scoring.tuning.training import train as tuned

    request, num_processes = config["request"], config["num_processes"]
    assert isinstance(request, TrainingRequest)
    assert isinstance(num_processes, int)
    train.report({RESULT: tuned(request, lambda step, steps: None, num_processes)})


def _reason(error: Exception) -> str:
    """The line of an error of ours if a worker raised one."""
    for line in reversed(str(error).splitlines()):
        name, _, message = line.partition(": ")
        if name.startswith("ingest.errors."):
            return message
    return f"a tuning process ended ({type(error).__name__}); run the same command again to continue"
