"""The scan in this process and further ones of this machine: the same slices, attempts and results as on Ray.

    python -m jobs.scanning.inline FD     a further process; the parent talks to it through the inherited connection

A thread of the parent serves each further process. If one dies, a new one scans its slice again. The run counts the
deaths (`scoring.runs.attempts`): a slice that kills its process is isolated, and at last given up. A further process
ends at once when its parent is gone.

A picture that crashes a decoder, or takes longer than `ScanSettings.stall_s`, ends the process that scans its slice,
which may be this one. The run counts such deaths. After two of them a slice is scanned image by image, in a child
process that may die.
"""

import sys
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue

from ingest.child import ChildProcess, received
from ingest.errors import PrivsieveError
from jobs.scanning.chosen import Chosen
from jobs.scanning.slice_scanner import SliceScanner, WorkerCrash
from jobs.scanning.slice_tasks import ScanSettings, ShowUnderWay, SliceCounts, SliceTask, slices_left
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS
from scoring.runs.ledger import Ledger
from scoring.taxonomy import CARRIED_VARIABLES

TRIES = GIVE_UP_AFTER_DEATHS + 2
"""Children for one slice. The run gives the slice up before; if not even one starts, the parent scans it."""

REPORT_EVERY_S = 1.0
"""How often a child reports how many images of its slice are done."""

STOP_LIMIT_S = 10.0


def scan_slices(
    settings: ScanSettings,
    shards: list[str],
    chosen: Chosen,
    ledger: Ledger,
    show: ShowUnderWay = lambda num: None,
    *,
    num_processes: int = 1,
    further_after_s: float = 0.0,
) -> Generator[SliceCounts, None, None]:
    """Scan the slices of these shards that have no result in the ledger; yield what came of each.

    num_processes: with this one. further_after_s: seconds after which the others begin.
    """
    work = Work(_listed(settings, shards, chosen, ledger), show)
    further = [FurtherProcess(settings, work, further_after_s) for _ in range(1, num_processes)]
    num_at_work = len(further)
    scanner = None
    try:
        for process in further:
            process.start()
        scanner = SliceScanner(settings, on_progress=work.on_progress)
        for _ in range(settings.slices_at_once - 1):
            threading.Thread(target=_scan_beside, args=(scanner, work), daemon=True).start()
            num_at_work += 1
        while True:
            task = work.take()
            if task is not None:
                work.scan(scanner, task)
            elif not num_at_work and work.ended.empty():
                return
            else:
                for process in further:
                    process.begins.set()  # to find that nothing is left
            while not work.ended.empty() or (task is None and num_at_work):
                counts = work.ended.get()
                if counts is None:
                    num_at_work -= 1
                    break  # it may have given a slice back
                yield counts
    finally:
        for process in further:
            process.stop()
        if scanner is not None:
            scanner.close()


def _scan_beside(scanner: SliceScanner, work: "Work") -> None:
    """Scan slices until none is left: an engine with several batches under way would wait between two slices."""
    try:
        while (task := work.take()) is not None:
            work.scan(scanner, task)
    finally:
        work.ended.put(None)


def _listed(
    settings: ScanSettings, shards: list[str], chosen: Chosen, ledger: Ledger
) -> Iterator[SliceTask | SliceCounts]:
    for shard in shards:
        try:
            yield from slices_left(settings, shard, chosen, ledger)
        except PrivsieveError as error:
            yield SliceCounts(failure=str(error))


def scan_until_it_ends(scanner: SliceScanner, task: SliceTask) -> SliceCounts:
    """Scan a slice. A crash of a worker counts as on Ray: soon the slice is isolated, and at last it is given up."""
    while True:
        try:
            return scanner.scan(task)
        except WorkerCrash:
            continue


class Work:
    """What the threads of a scan share."""

    def __init__(self, listed: Iterator[SliceTask | SliceCounts], show: ShowUnderWay):
        self._listed, self._show = listed, show
        self._given_back: list[SliceTask] = []
        self._num_done: dict[str, int] = {}
        self._lock = threading.Lock()
        self.ended = SimpleQueue[SliceCounts | None]()
        """What came of each slice and of shards that cannot be listed; None once a further process or thread has ended.
        """

    def take(self) -> SliceTask | None:
        """Return the next slice; each is taken once. None if nothing is left."""
        with self._lock:
            if self._given_back:
                return self._given_back.pop()
            for listed in self._listed:
                if isinstance(listed, SliceTask):
                    return listed
                self.ended.put(listed)
        return None

    def give_back(self, task: SliceTask) -> None:
        with self._lock:
            self._given_back.append(task)

    def scan(self, scanner: SliceScanner, task: SliceTask) -> None:
        """Scan a slice in this process."""
        self.ended.put(scan_until_it_ends(scanner, task))
        self.on_progress(task.name, 0)

    def on_progress(self, slice_name: str, num_images: int) -> None:
        """Set the images done in a slice; 0 once it has ended."""
        with self._lock:
            self._num_done[slice_name] = num_images
            if not num_images:
                del self._num_done[slice_name]
            self._show(sum(self._num_done.values()))


class FurtherProcess(threading.Thread):
    """A thread that serves one child after the other."""

    def __init__(self, settings: ScanSettings, work: Work, after_s: float):
        """after_s: seconds before the first child is started, since a small scan is done before one is ready."""
        super().__init__(daemon=True)
        self._work, self._after_s = work, after_s
        self._settings = replace(settings, source=replace(settings.source, shards=()))  # names would take long to send
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
                counts = self._scanned(task)
                self._work.on_progress(task.name, 0)
                if counts is None:
                    self._work.give_back(task)
                    return
                self._work.ended.put(counts)
        finally:
            self._kill()
            self._work.ended.put(None)

    def _scanned(self, task: SliceTask) -> SliceCounts | None:
        """Return what came of a slice; None if no child answers."""
        for _ in range(TRIES):
            try:
                with self._lock:
                    if self._is_over.is_set():
                        return None
                    is_new = self._child is None
                    self._child = self._child or ChildProcess("jobs.scanning.inline", CARRIED_VARIABLES)
                    connection = self._child.connection
                if is_new:
                    connection.send(self._settings)
                connection.send(task)
                while isinstance(answer := connection.recv(), int):
                    self._work.on_progress(task.name, answer)
            except (EOFError, OSError):
                self._kill()
                continue
            assert isinstance(answer, SliceCounts)
            return answer
        return None

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child = None


def _serve(connection: Connection) -> None:
    """Scan the slices that the parent sends, in the child."""
    messages = received(connection)
    settings: ScanSettings = messages.get()
    reported_s = 0.0

    def on_progress(_: str, num_images: int) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s >= REPORT_EVERY_S:
            reported_s = time.monotonic()
            connection.send(num_images)

    scanner = SliceScanner(settings, on_progress=on_progress)
    while True:
        connection.send(scan_until_it_ends(scanner, messages.get()))


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
