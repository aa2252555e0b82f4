"""The machines that Ray has: what they offer, and how many engines they hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.errors import PrivsieveError
from ingest.machine import num_cores
from jobs.runtime.cluster import is_this_machine
from scoring.assessment import EngineOptions
from scoring.engines import engine_module

MAX_GROWTH = 1024
"""Limit on the engines of a cluster whose number is not given: it may start further machines."""

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
    nodes = cluster_nodes()
    if is_this_machine(address):  # where Ray gets twice as many CPUs as there are
        nodes = [ClusterNode(num_cores(), node.num_gpus) for node in nodes]
    cores = [node.num_cpus / node.num_gpus * gpus_per_engine for node in nodes if node.num_gpus >= gpus_per_engine]
    return max(1, int(min(cores, default=1)) - 1)


def gpus_of_engine(engine: str, options: EngineOptions, wanted: float | None) -> float:
    """Return the GPUs of an engine on a cluster. wanted: what the user gave; None: what the engine asks for.
    PrivsieveError if that is fewer than the model is spread over; 0 is for a vLLM that runs on CPUs."""
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


def refuse_unfit_engine(address: str | None, cpus_per_engine: float, gpus_per_engine: float) -> None:
    """Raise PrivsieveError if no engine fits on this machine, where Ray would wait without end. A cluster may get
    further machines."""
    if not is_this_machine(address):
        return
    here = cluster_nodes()[0]
    for kind, wanted, available in (("CPU", cpus_per_engine, here.num_cpus), ("GPU", gpus_per_engine, here.num_gpus)):
        if wanted > available:
            raise PrivsieveError(
                f"--engine-{kind.lower()}s {wanted:g}: Ray has {available:g} {kind}{'s' * (available != 1)} on this "
                "machine; give less, or --ray-address"
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
    address: str | None, cpus_per_engine: float, gpus_per_engine: float, wanted: int | None
) -> tuple[int, int]:
    """Return the engine actors to ask for at once, and how many there may be. Call this inside `ray_session(address)`.

    wanted: what the user gave; None: nothing. Then this machine alone gets one engine per core that the process may
    use, since Ray gets twice as many CPUs as there are; on a cluster the pool grows as machines come.
    """
    if wanted is None and is_this_machine(address) and not gpus_per_engine:
        wanted = max(1, int(num_cores() / max(1.0, cpus_per_engine)))
    size = wanted or engines_that_fit(cluster_nodes(), cpus_per_engine, gpus_per_engine)
    return size, size if wanted or is_this_machine(address) else MAX_GROWTH


def num_slicers(num_engines: int, max_engines: int) -> int:
    """Return the number of processes that list shards for the engines asked for at once and a few more. All of them may
    run on one machine, so their number does not follow a growth that has no limit."""
    return max(1, max(num_engines, min(max_engines, GROWTH_LISTED)) // ENGINES_PER_SLICER)
