"""Child processes, which may die, and limits for what others made: models, chat templates, Parquet files.

python -m ingest.child FD     a limited child; the parent talks to it through the inherited connection FD
"""

import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import Any

from ingest import errors
from ingest.errors import PrivsieveError
from ingest.machine import keep_pandas_away


class ChildProcess:
    """A fresh interpreter with the same modules, which runs `python -m MODULE FD` and listens to its connection."""

    def __init__(self, module: str, variables: Mapping[str, str]):
        """variables: of its environment, in addition to those of this process."""
        self.connection, theirs = Pipe()
        # -P: nothing is imported from the working directory, which is the user's.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for the parent. An engine may have processes of its own, which must end with the child.
            start_new_session=True,
        )
        theirs.close()
        self.pid = self._process.pid

    def wait(self, limit_s: float) -> int:
        """Return its exit code, negative for a signal. subprocess.TimeoutExpired if it does not end in time."""
        return self._process.wait(limit_s)

    def kill(self) -> None:
        """End it and what it has started. Its connection stays open, since another thread may read from it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def received(connection: Connection) -> SimpleQueue[Any]:
    """Return what the parent sends. The process ends as soon as its parent is gone, even in the midst of work."""
    messages = SimpleQueue[Any]()

    def receive() -> None:
        try:
            while True:
                messages.put(connection.recv())
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        finally:
            os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    return messages


ANSWER_LIMIT_S = 600
"""Time for an answer of a limited child, whose first one includes its imports: ends a child that waits for ever."""

DEATH_LIMIT_S = 10
"""Time for a child whose connection has ended to end itself."""

_OUT_OF_MEMORY = 99
"""Exit code."""


@dataclass(frozen=True)
class Limits:
    """What a limited child may take."""

    cpu_s: int
    """Processor time for each request."""

    memory_bytes: int
    """Memory in addition to the child's own after its imports. Only Linux enforces it."""

    answer_bytes: int
    """Size of an answer or question."""


class LimitError(PrivsieveError):
    """A child took too much and is dead. The message is a predicate, such as `takes more than 10 s`."""


_ANSWER, _QUESTION, _ERROR = b"a", b"q", b"e"
"""What a message of a child is; its content follows. It is never unpickled: the child may have been taken over."""

_ERROR_BYTES = 4_000
"""Limit of the class and the message of an error."""

Ask = Callable[[bytes], Any]
"""Asks the parent a question while a request is worked on, and returns the answer, which may be any object."""

Work = Callable[[Any], bytes]
"""Answers a request in the child."""


class LimitedChild:
    """A child that does one thing again and again within limits. For one thread at a time."""

    def __init__(self, prepare: Callable[[Ask], Work], limits: Limits, variables: Mapping[str, str]):
        """prepare: function of a module; it imports what is needed, without limits, and returns what answers requests.
        It takes what asks the parent something meanwhile. variables: as of `ChildProcess`.

        LimitError, as `ask`.
        """
        self._limits = limits
        self._process = ChildProcess("ingest.child", variables)
        self.close = weakref.finalize(self, self._process.kill)
        self.ask((prepare, limits))

    @property
    def is_alive(self) -> bool:
        return self.close.alive

    def ask(self, request: Any) -> bytes:
        """Return the answer; errors as in `answer`."""
        self.begin(request)
        return self.answer()

    def begin(self, request: Any) -> None:
        """Send a request; LimitError. `answer` must follow."""
        with self._closed_on_error():
            self._process.connection.send(request)

    def answer(self, tell: Ask | None = None) -> bytes:
        """Return the answer. LimitError; or the PrivsieveError that the work raises, after which the child goes on.
        tell: answers what the child asks meanwhile. If it raises, the child is closed."""
        with self._closed_on_error():
            kind, content = self._received()
            while tell is not None and kind == _QUESTION:
                self._process.connection.send(tell(content))
                kind, content = self._received()
        if kind == _ERROR:
            name, _, message = content.decode(errors="replace").partition(" ")
            named = getattr(errors, name, None)
            raise (named if isinstance(named, type) and issubclass(named, PrivsieveError) else PrivsieveError)(message)
        return content

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            cause = self._cause_of_death()
            self.close()
            raise LimitError(cause) from None
        except BaseException:  # such as Ctrl-C: a later request would get the answer to this one
            self.close()
            raise

    def _received(self) -> tuple[bytes, bytes]:
        connection = self._process.connection
        if not connection.poll(ANSWER_LIMIT_S):
            raise LimitError(f"does not answer within {ANSWER_LIMIT_S} s")
        return connection.recv_bytes(len(_ANSWER)), connection.recv_bytes(max(self._limits.answer_bytes, _ERROR_BYTES))

    def _cause_of_death(self) -> str:
        if not self._process.connection.readable:  # so after a message that is too long
            return f"gives more than {self._limits.answer_bytes:,} bytes"
        try:
            code = self._process.wait(DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "does not answer any more"
        if code == -signal.SIGXCPU:
            return f"takes more than {self._limits.cpu_s} s"
        if code in (-signal.SIGKILL, _OUT_OF_MEMORY):
            return f"takes more than {self._limits.memory_bytes // 2**20} MB of memory"
        return f"ended its process ({code})"


def serve(connection: Connection) -> None:
    """Answer requests. Runs in the child."""
    keep_pandas_away()
    requests = received(connection)
    prepare, limits = requests.get()

    def ask(question: bytes) -> Any:
        _send(connection, _QUESTION, question)
        return requests.get()

    work = prepare(ask)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), open("/proc/self/statm") as file:
        num_bytes = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
    _send(connection, _ANSWER, b"")
    while True:
        _send(connection, *_answer(work, requests.get(), limits.cpu_s))


def _send(connection: Connection, kind: bytes, content: bytes) -> None:
    connection.send_bytes(kind)
    connection.send_bytes(content)


def _answer(work: Work, request: Any, cpu_s: int) -> tuple[bytes, bytes]:
    """Return the answer, or the PrivsieveError instead, with its kind. The process ends at a limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + 1 + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    try:
        return _ANSWER, work(request)
    except PrivsieveError as error:
        return _ERROR, f"{type(error).__name__} {error}".encode(errors="replace")[:_ERROR_BYTES]
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


if __name__ == "__main__":
    from ingest.child import serve  # as the parent knows this module, for what is pickled

    serve(Connection(int(sys.argv[1])))
