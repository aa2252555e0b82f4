"""Work that processes of this machine share: this one and further ones, each with one task at a time.

    python -m jobs.runtime.processes FD     a further process; the parent talks to it through the inherited connection

A thread of the parent serves each further process. If one dies, a new one does its task again. A further process ends
at once when its parent is gone.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Generic, TypeVar

from ingest.child import ChildProcess, received
from ingest.machine import keep_pandas_away, num_cores
from scoring.assessment import EngineDescription
from scoring.runs.attempts import ISOLATE_AFTER_DEATHS
from scoring.taxonomy import CARRIED_VARIABLES

Task = TypeVar("Task")
Answer = TypeVar("Answer")

OnProgress = Callable[[str, int], object]
"""Takes the name of a task and how many of its images are done, for progress; an empty name if an engine is loaded."""


def no_progress(name: str, num_images: int) -> None:
    """Use this as `OnProgress` if progress is not shown."""


Prepare = Callable[[OnProgress], AbstractContextManager[Callable[[Task], Answer]]]
"""Gives what does the tasks in a process, to which it is sent: a function of a module, with what it needs (`partial`).
"""

TRIES = ISOLATE_AFTER_DEATHS + 1
"""Processes for one task, which is then given up or left to the parent. In the last, a scan looks at images apart."""

FURTHER_AFTER_S = 2.0
"""Seconds after which further processes begin: small work is done before one of them is ready."""

REPORT_EVERY_S = 1.0
"""How often a further process reports how many images of its task are done."""

STOP_LIMIT_S = 10.0


def default_processes(engine: EngineDescription | None) -> int:
    """Return one process for each core; 1 for an engine that has workers of its own."""
    has_own_workers = engine is not None and (engine.num_gpus > 0 or engine.batches_at_once > 1)
    return 1 if has_own_workers else num_cores()


def shared(
    prepare: Prepare[Task, Answer],
    tasks: Iterator[Task],
    *,
    num_processes: int,
    further_after_s: float = 0.0,
    num_threads: int = 1,
    on_progress: OnProgress = no_progress,
    given_up: Callable[[Task], Answer] | None = None,
    only_serves: bool = False,
) -> Generator[Answer, None, None]:
    """Yield what comes of each task, as it is done. Close this generator to end the further processes.

    num_processes: with this one; no more begin than there are tasks. further_after_s: seconds after which the others
    begin. num_threads: of this process. given_up: answers for a task whose processes all died; else this one does it.
    only_serves: whether this process does nothing while there are others, so that no task can end it.
    """
    work = Work[Task, Answer](tasks)
    further, adding = list[FurtherProcess[Task, Answer]](), threading.Lock()
    num_beside = num_ended = 0

    def add_process() -> None:
        """Start one more, which adds another for each task that it takes."""
        with adding:
            if len(further) < num_processes - (not only_serves):
                after_s = 0.0 if further else further_after_s
                further.append(FurtherProcess(prepare, work, on_progress, after_s, add_process, given_up))
                try:
                    further[-1].start()
                except RuntimeError:  # no thread is to be had: those at work do the rest
                    further.pop()

    def num_at_work() -> int:
        return len(further) + num_beside - num_ended

    try:
        add_process()
        with prepare(on_progress) as do:
            for _ in range(num_threads - 1):
                threading.Thread(target=_do_beside, args=(do, work), daemon=True).start()
                num_beside += 1
            while True:
                task = None if only_serves and num_at_work() else work.take()
                if task is not None:
                    work.ended.put(do(task))
                elif not num_at_work() and work.ended.empty():
                    return
                else:
                    for process in further:
                        process.begins.set()  # to find that nothing is left
                while not work.ended.empty() or (task is None and num_at_work()):
                    answer = work.ended.get()
                    if answer is None:
                        num_ended += 1
                        break  # it may have given a task back
                    yield answer
    finally:
        for process in further:
            process.stop()


class Work(Generic[Task, Answer]):
    """The tasks that no process has yet, and what came of the others."""

    def __init__(self, tasks: Iterator[Task]):
        self._tasks, self._given_back, self._lock = tasks, list[Task](), threading.Lock()
        self.ended = SimpleQueue[Answer | None]()
        """What came of each task; None once a further process or thread has ended."""

    def take(self) -> Task | None:
        """Return the next task; each is taken once. None if nothing is left."""
        with self._lock:
            return self._given_back.pop() if self._given_back else next(self._tasks, None)

    def give_back(self, task: Task) -> None:
        with self._lock:
            self._given_back.append(task)


def _do_beside(do: Callable[[Task], Answer], work: Work[Task, Answer]) -> None:
    try:
        while (task := work.take()) is not None:
            work.ended.put(do(task))
    finally:
        work.ended.put(None)


class FurtherProcess(threading.Thread, Generic[Task, Answer]):
    """A thread that serves one child after the other."""

    def __init__(
        self,
        prepare: Prepare[Task, Answer],
        work: Work[Task, Answer],
        on_progress: OnProgress,
        after_s: float = 0.0,
        on_task: Callable[[], object] = lambda: None,
        given_up: Callable[[Task], Answer] | None = None,
    ):
        super().__init__(daemon=True)
        self._prepare, self._work, self._on_progress, self._after_s = prepare, work, on_progress, after_s
        self._on_task, self._given_up = on_task, given_up
        self._lock, self._is_over, self.begins = threading.Lock(), threading.Event(), threading.Event()
        self._child: ChildProcess | None = None

    def stop(self) -> None:
        """Kill the child, whatever it does."""
        self._is_over.set()
        self.begins.set()
        self._kill()
        if self.is_alive():
            self.join(STOP_LIMIT_S)

    def run(self) -> None:
        try:
            self.begins.wait(self._after_s)
            while not self._is_over.is_set() and (task := self._work.take()) is not None:
                if not self._is_over.is_set():
                    self._on_task()
                answer = self._done(task)
                if answer is None:
                    self._work.give_back(task)
                    return
                self._work.ended.put(answer)
        finally:
            self._kill()
            self._work.ended.put(None)

    def _done(self, task: Task) -> Answer | None:
        """Return what came of a task; None if no child answers."""
        num_deaths = 0
        for _ in range(TRIES):
            try:
                with self._lock:
                    if self._is_over.is_set():
                        return None
                    is_new = self._child is None
                    self._child = self._child or ChildProcess("jobs.runtime.processes", CARRIED_VARIABLES)
                    connection = self._child.connection
                if is_new:
                    connection.send(self._prepare)
                connection.send(task)
                while True:
                    name, content = connection.recv()
                    if name is None:
                        answer: Answer = content
                        return answer
                    self._on_progress(name, content)
            except (EOFError, OSError):
                num_deaths += self._child is not None  # else none could be started
                self._kill()
        return self._given_up(task) if self._given_up and num_deaths == TRIES else None

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child = None


def _serve(connection: Connection) -> None:
    """Do what the parent sends, in the child."""
    keep_pandas_away()
    tasks = received(connection)
    prepare: Prepare[object, object] = tasks.get()
    reported_s = 0.0

    def on_progress(name: str, num_images: int) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s >= REPORT_EVERY_S:
            reported_s = time.monotonic()
            connection.send((name, num_images))

    with prepare(on_progress) as do:
        while True:
            connection.send((None, do(tasks.get())))


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
