"""Machines of a cluster that have no engine: it cannot be loaded there, or their program is another.

A notice names each of them once, and other machines scan the slices that it was given.

Ray Data gives slices to an actor whose constructor has ended, and restarts actors wherever there is room. If the
constructor of a restarted actor raises, Ray Data ends the dataset. So no constructor here raises: an actor without an
engine hands its slices back, so slowly that the other engines get nearly all. Slices that were handed back are listed
again in a further pass, which leaves out the machines that are known to have no engine.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ingest import __version__
from ingest.errors import IncompleteError
from jobs.runtime.on_worker import check_of_program
from jobs.scanning.slice_tasks import SliceCounts

MAX_PASSES = 4
"""Limit on passes. A machine that joins during a pass may lack an engine, too."""

MAX_MACHINES = 3
"""Number of machines that may fail before any has an engine. After that the cause is not the machine."""

MAX_PAUSE_S = 60.0
"""Limit on the pause of an actor without an engine: none for the first slice, 1 s for the next, and so on."""


class ScanStates:
    """The one actor of a scan: which engines are being loaded or were loaded, and how far slices are. Its name is the
    title of its process. If it is lost, Ray starts another, and progress is by whole slices for a moment."""

    def __init__(self) -> None:
        self._by_actor: dict[str, tuple[str, str]] = {}
        self._num_done: dict[str, int] = {}
        self._is_begun = False

    def report(self, actor_id: str, node_id: str, state: str) -> None:
        """Note the state of an engine. state: loading, loaded or failed."""
        self._by_actor[actor_id] = (node_id, state)

    def nodes(self, state: str) -> set[str]:
        """Return the machines with an engine in this state."""
        return {node_id for node_id, its_state in self._by_actor.values() if its_state == state}

    def forget(self) -> None:
        """Forget all engines: those of the pass before have ended."""
        self._by_actor.clear()

    def on_progress(self, slice_name: str, num_images: int) -> None:
        """Take progress, as `jobs.scanning.slice_scanner.OnProgress`."""
        self._is_begun = True
        if slice_name:
            self._num_done[slice_name] = num_images

    def under_way(self, ended: list[str]) -> dict[str, int] | None:
        """Return images by slice, and forget those that have ended; None before an engine is loaded."""
        for name in ended:
            self._num_done.pop(name, None)
        return self._num_done if self._is_begun else None


class HandedBack:
    """The driver's part."""

    def __init__(self, num_cpus: float, num_gpus: float, notice: Callable[[str], None]):
        """Start the actor. num_cpus, num_gpus: of an engine."""
        # On the machine of the driver, without which the scan ends anyway. If the actor is lost all the same, calls
        # wait until Ray has started it again: an error in the constructor of an engine would end the scan.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        remote = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
        self.states = remote(ScanStates).remote()
        self.numbers: set[int] = set()
        """Numbers of shards of which something was handed back in this pass."""
        self._num_cpus, self._num_gpus, self._notice = num_cpus, num_gpus, notice
        self._machines: dict[str, str] = {}
        self._last: SliceCounts | None = None

    def named(self, counts: SliceCounts) -> str:
        """Return the failure, with the machine's name if there are several."""
        return f"machine {counts.machine}: {counts.failure}" if len(_alive()) > 1 else counts.failure

    def note(self, counts: SliceCounts, number: int) -> None:
        """Note a slice that was handed back. number: of the shard. IncompleteError if no machine has an engine, and
        none is left that might."""
        self.numbers.add(number)
        self._last = counts
        is_new = counts.node_id not in self._machines
        self._machines[counts.node_id] = counts.machine
        at_work = ray.get(self.states.nodes.remote("loaded")) | ray.get(self.states.nodes.remote("loading"))
        if at_work.isdisjoint(_alive()):
            self._refuse_hopeless(counts)
        if is_new:
            self._notice(f"{self.named(counts)}; other machines scan what it was given")

    def next_pass(self) -> dict[str, str]:
        """Begin a pass. Return the labels that machines must have for it, for Ray.

        IncompleteError if no machine is left that might have an engine: when `note` was called, another engine of a
        machine may still have been loading.
        """
        for node_id in ray.get(self.states.nodes.remote("loaded")):
            self._machines.pop(node_id, None)  # another engine of this machine works
        if self._last is not None:
            self._refuse_hopeless(self._last)
        ray.get(self.states.forget.remote())
        self.numbers.clear()
        return {"ray.io/node-id": f"!in({','.join(self._machines)})"} if self._machines else {}

    def close(self) -> None:
        ray.kill(self.states)

    def _refuse_hopeless(self, counts: SliceCounts) -> None:
        """Raise IncompleteError if no machine is left that was not tried. counts: of the slice handed back last."""
        nodes = _alive()
        untried = [node for node in nodes if node not in self._machines and self._has_room(nodes[node])]
        if not untried or len(self._machines) >= MAX_MACHINES:
            raise IncompleteError(f"{self.named(counts)}; run the same command again to continue")

    def _has_room(self, resources: dict[str, float]) -> bool:
        return resources.get("CPU", 0) >= self._num_cpus and resources.get("GPU", 0) >= self._num_gpus


def _alive() -> dict[str, dict[str, float]]:
    """Return Ray's name of a machine -> its resources."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def engine_actor(code: str) -> type:
    """Return the actor: Ray Data calls it with one slice at a time. Its name is the title of its process.

    code: as in `check_of_program`. Ray sends the class as it is, so that it also runs where privsieve is missing or
    differs.
    """
    other_program = check_of_program()
    version = __version__
    nothing = asdict(SliceCounts(is_fatal=True, is_handed_back=True))
    max_pause_s = MAX_PAUSE_S

    class SliceScannerActor:
        def __init__(self, states: Any, worker: bytes):
            """Load the engine. worker: a pickled function that returns a `jobs.scanning.on_ray.ScansRows`."""
            import pickle
            import platform
            import threading

            context = ray.get_runtime_context()
            self._states, self._actor_id = states, context.get_actor_id()
            self._where = {"machine": platform.node(), "node_id": context.get_node_id()}
            self._pausing, self._pause_s = threading.Lock(), 0.0
            self._report("loading")
            self._why, self._worker = other_program(version, code), None
            if not self._why:
                self._worker = pickle.loads(worker)()
            has_engine = self._worker is not None and self._worker.has_engine
            self._report("loaded" if has_engine else "failed")

        def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
            """Scan a batch of one row of `jobs.scanning.on_ray`. Return one with the fields of `SliceCounts`."""
            counts = self._counts({name: str(values[0]) for name, values in batch.items()})
            return {name: [value] for name, value in counts.items()}

        def _counts(self, row: dict[str, str]) -> dict[str, Any]:
            counts = nothing | {"failure": self._why} if self._worker is None else self._worker.counts(row)
            if counts["is_fatal"] and not counts["machine"]:
                counts |= self._where
            if counts["is_handed_back"] and counts["node_id"] == self._where["node_id"]:
                self._report("failed")
                self._pause()
            return counts | {"number": row["number"]}

        def _pause(self) -> None:
            import time

            with self._pausing:
                time.sleep(self._pause_s)
                self._pause_s = min(max(1.0, 2 * self._pause_s), max_pause_s)

        def _report(self, state: str) -> None:
            ray.get(self._states.report.remote(self._actor_id, self._where["node_id"], state))

    return SliceScannerActor


def on_same_program(
    list_shard: Callable[[dict[str, Any]], Iterator[dict[str, str]]], columns: Iterable[str], code: str
) -> Any:
    """Return `list_shard` as a function that Ray sends as it is.

    If the program of the machine is another, it gives one row, which hands the shard back. list_shard: `{"number": of
    the shard}` -> rows with `columns`. code: as in `check_of_program`.
    """
    from ray import cloudpickle

    other_program = check_of_program()
    version, pickled = __version__, cloudpickle.dumps(list_shard)
    nothing = dict.fromkeys(columns, "")

    def list_where_same(row: dict[str, Any]) -> Iterator[dict[str, str]]:
        import pickle
        import platform

        if why := other_program(version, code):
            here = {"machine": platform.node(), "node_id": ray.get_runtime_context().get_node_id()}
            yield nothing | here | {"number": str(row["number"]), "failure": why}
        else:
            yield from pickle.loads(pickled)(row)

    return list_where_same
