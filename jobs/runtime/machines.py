"""The machines that Ray has: what they offer, how many engines they hold, and which may still be started."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ingest.errors import PrivsieveError
from ingest.machine import num_cores
from jobs.runtime.cluster import is_this_machine
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.yaml_files import load_yaml

AUTOSCALER_CONFIG = "~/ray_bootstrap_config.yaml"
"""Where `ray up` leaves the cluster's file on the head."""

MAX_GROWTH = 1024
"""Limit on the engines of a cluster that does not say how many machines it may start, as on Kubernetes."""

ENGINES_PER_SLICER = 4
"""Listing a shard costs far less than scoring it, and each listing process takes a moment to start and 200 MB."""
GROWTH_LISTED = 16
"""Engines of a growing pool for which shards are listed in any case."""


@dataclass(frozen=True)
class ClusterNode:
    """What a machine offers to Ray: logical CPUs (0 on a head that only plans) and GPUs."""

    num_cpus: float
    num_gpus: float


def cluster_nodes() -> list[ClusterNode]:
    """Return the machines of the cluster that this process is connected to and that are alive now."""
    import ray

    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [ClusterNode(float(resources.get("CPU", 0)), float(resources.get("GPU", 0))) for resources in alive]


def default_num_gpus(address: str | None, wanted: float) -> float:
    """Return the GPUs of an engine that asks for `wanted`: none if only this machine is used and has none."""
    is_without = is_this_machine(address) and not any(node.num_gpus for node in cluster_nodes())
    return 0 if is_without else wanted


def default_num_cpus(address: str | None, gpus_per_engine: float) -> float:
    """Return the CPUs of an engine: its GPUs' share of the cores of its machine, less one, by the machine that has the
    fewest for each GPU. 1 without a GPU, and where no machine with one is known yet.

    More than one decodes and prepares pictures for a GPU; see docs/engines.md.
    """
    if not gpus_per_engine:
        return 1
    if is_this_machine(address):  # where Ray gets twice as many CPUs as there are
        nodes = [ClusterNode(num_cores(), node.num_gpus) for node in cluster_nodes()]
    else:
        nodes = [*cluster_nodes(), *_nodes_that_may_start(_autoscaler_config() or _AutoscalerConfig())]
    cores = [node.num_cpus / node.num_gpus * gpus_per_engine for node in nodes if node.num_gpus >= gpus_per_engine]
    return max(1, int(min(cores, default=1)) - 1)


def gpus_of_engine(engine: str, options: EngineOptions, wanted: float | None) -> float:
    """Return the GPUs of an engine on a cluster. wanted: what the user gave; None: what the engine asks for.

    PrivsieveError if that is fewer than the model is spread over; 0 is for a vLLM that runs on CPUs.
    """
    model = engine_module(engine).requirements(options).local_model
    num_gpus = 0 if model is None else model.num_gpus
    if wanted is None:
        return num_gpus
    if num_gpus > 1 and 0 < wanted < num_gpus:
        raise PrivsieveError(
            f"--engine-gpus {wanted:g}: the model is spread over {num_gpus} GPUs (--tensor-parallel-size); give "
            f"{num_gpus}, or leave --engine-gpus out"
        )
    return wanted


def share_of_gpu(wanted: float | None) -> float | None:
    """Return `EngineOptions.gpu_share` of what `--engine-gpus` gives."""
    return wanted if wanted is not None and 0 < wanted < 1 else None


def refuse_unfit_engine(address: str | None, cpus_per_engine: float, gpus_per_engine: float) -> None:
    """Raise PrivsieveError if no engine fits on any machine, and the cluster may start none that fits. Ray would wait
    without end."""
    if not is_this_machine(address):
        refuse_without_room(cpus_per_engine, gpus_per_engine)
        return
    here = cluster_nodes()[0]
    for kind, wanted, available in (("CPU", cpus_per_engine, here.num_cpus), ("GPU", gpus_per_engine, here.num_gpus)):
        if wanted > available:
            raise PrivsieveError(
                f"--engine-{kind.lower()}s {wanted:g}: Ray has {available:g} {kind}{'s' * (available != 1)} on this "
                "machine; give less, or --ray-address"
            )


def refuse_without_room(num_cpus: float, num_gpus: float) -> None:
    """Raise PrivsieveError if no machine of the cluster offers this much, and its file says that it starts none that
    does."""
    nodes = cluster_nodes()
    if any(node.num_cpus >= num_cpus and node.num_gpus >= num_gpus for node in nodes):
        return
    if engines_that_may_start(num_cpus, num_gpus) == 0:
        most_cpus = max((node.num_cpus for node in nodes), default=0)
        most_gpus = max((node.num_gpus for node in nodes), default=0)
        raise PrivsieveError(
            f"no machine of the cluster has {num_cpus:g} CPUs and {num_gpus:g} GPUs for an engine (the most are "
            f"{most_cpus:g} CPUs and {most_gpus:g} GPUs), and the cluster starts none that has: give less with "
            "--engine-cpus and --engine-gpus, or add a machine with `ray start --address`"
        )


def engines_that_fit(nodes: Sequence[ClusterNode], cpus_per_engine: float, gpus_per_engine: float) -> int:
    """Return how many engine actors the machines hold at once, at least 1; an engine never spans machines.

    If engines need CPUs only, one CPU in nine is left for the readers that feed them. A cluster that scales from
    nothing shows no machine yet: there the number of engines has to be given.
    """
    if gpus_per_engine:
        by_both = [min(node.num_gpus / gpus_per_engine, node.num_cpus / cpus_per_engine) for node in nodes]
        return max(1, sum(map(int, by_both)))
    num_cpus = sum(node.num_cpus for node in nodes)
    fitting = sum(int(node.num_cpus / cpus_per_engine) for node in nodes)
    left_for_engines = min(num_cpus - 1, num_cpus * 8 / 9)
    return max(1, min(fitting, int(left_for_engines / cpus_per_engine)))


def pool_size(
    address: str | None, cpus_per_engine: float, gpus_per_engine: float, wanted: int | None, at_most: int | None
) -> tuple[int, int]:
    """Return the engine actors to ask for at once, and how many there may be. Call this inside `ray_session(address)`.

    wanted, at_most: what the user gave; None: nothing. Without a number, this machine alone gets one engine per core
    that the process may use, since Ray gets twice as many CPUs as there are. On a cluster, engines are asked for on all
    machines that its autoscaler may start, if `AUTOSCALER_CONFIG` says how many; else the pool grows as machines come.
    """
    if wanted is None and not is_this_machine(address):
        now = engines_that_fit(cluster_nodes(), cpus_per_engine, gpus_per_engine)
        may_start = engines_that_may_start(cpus_per_engine, gpus_per_engine)
        size = max(now, may_start or 0)
        return min(size, at_most or size), at_most or (MAX_GROWTH if may_start is None else size)
    if wanted is None and not gpus_per_engine:
        wanted = max(1, int(num_cores() / max(1.0, cpus_per_engine)))
    size = wanted or engines_that_fit(cluster_nodes(), cpus_per_engine, gpus_per_engine)
    return min(size, at_most or size), at_most or size


def num_slicers(num_engines: int, max_engines: int) -> int:
    """Return the number of processes that list shards for the engines asked for at once and a few more.

    All of them may run on one machine, so their number does not follow a growth that has no limit.
    """
    return max(1, max(num_engines, min(max_engines, GROWTH_LISTED)) // ENGINES_PER_SLICER)


def engines_that_may_start(cpus_per_engine: float, gpus_per_engine: float) -> int | None:
    """Return how many engines fit on all machines that the autoscaler of `ray up` may start; None if no file says.

    Engines without GPU get machines with GPUs only if no other type of machine holds them.
    """
    config = _autoscaler_config()
    if config is None:
        return None
    nodes = _nodes_that_may_start(config)
    fitting = [node for node in nodes if node.num_cpus >= cpus_per_engine and node.num_gpus >= gpus_per_engine]
    if not gpus_per_engine:
        fitting = [node for node in fitting if not node.num_gpus] or fitting
    fitting.sort(key=lambda node: -engines_that_fit([node], cpus_per_engine, gpus_per_engine))
    started = fitting[: config.max_workers]
    return engines_that_fit(started, cpus_per_engine, gpus_per_engine) if started else 0


class _NodeType(BaseModel):
    resources: dict[str, float] = {}
    max_workers: int = 0


class _AutoscalerConfig(BaseModel):
    """The part of `AUTOSCALER_CONFIG` that is read."""

    max_workers: int = 0
    available_node_types: dict[str, _NodeType] = {}


def _autoscaler_config() -> _AutoscalerConfig | None:
    """Return what `ray up` left on the head; None without a file that can be read."""
    file = Path(AUTOSCALER_CONFIG).expanduser()
    if not file.is_file():
        return None
    try:
        return _AutoscalerConfig.model_validate(load_yaml(file.read_bytes(), AUTOSCALER_CONFIG))
    except (PrivsieveError, ValidationError, OSError):
        return None


def _nodes_that_may_start(config: _AutoscalerConfig) -> list[ClusterNode]:
    """Return the machines of each type that the autoscaler may start if it starts no other type."""
    return [
        ClusterNode(kind.resources.get("CPU", 0), kind.resources.get("GPU", 0))
        for kind in config.available_node_types.values()
        for _ in range(min(kind.max_workers, config.max_workers))
    ]
