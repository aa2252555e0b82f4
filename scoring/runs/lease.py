"""One scan at a time on a run: `RUN/lease.json` names the process that scans, which renews it.

Two scans at once would still give correct results (the same slice always gives the same file), but do the work
twice. The clocks of the machines must agree to well within `STALE_S`.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import IncompleteError, RunError, StorageError
from ingest.sample import printable
from ingest.storage.place import Place, reason_of
from scoring.runs.record import parsed

STALE_S = 120
"""A lease that was not renewed for this long is taken over without --takeover."""

RENEW_S = 20

_HELD_HERE: set[str] = set()
"""Ids of the leases held by threads of this process."""


class Holder(BaseModel):
    """The process that holds a lease."""

    model_config = ConfigDict(frozen=True)

    id: str
    host: str
    pid: Annotated[int, Field(ge=1, lt=2**31)]

    renewed: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Unix time in seconds."""

    def __str__(self) -> str:
        return f"process {self.pid} on {printable(self.host[:253])}"  # no name of a host is longer

    @property
    def is_here(self) -> bool:
        """Return whether this process holds the lease, as that of a command that is no scan does."""
        return self.id in _HELD_HERE

    def age_s(self) -> float:
        return max(0.0, time.time() - self.renewed)

    def is_stale(self) -> bool:
        """Return whether the lease was not renewed in time, or its process on this machine has ended. A time far in the
        future does not count as renewed, since the clocks of the machines agree."""
        if abs(time.time() - self.renewed) > STALE_S:
            return True
        if self.host != socket.gethostname():
            return False
        if self.pid == os.getpid():  # another thread's, or one of a restarted container with the same pid
            return self.id not in _HELD_HERE
        return not _runs(self.pid)


def holder(file: Place) -> Holder | None:
    """Read the holder of the lease in `file`, or None. StorageError if it cannot be read."""
    try:
        return parsed(Holder, file.content())
    except (FileNotFoundError, NotADirectoryError, ValueError):  # none, or cut off while it was written
        return None
    except OSError as error:
        raise StorageError(f"cannot read {file.path}: {reason_of(error)}; remove it") from None


class Lease:
    def __init__(self, file: Place):
        self._file = file
        self.id = uuid.uuid4().hex
        self._done = threading.Event()
        self.is_lost = False
        """Whether another command has taken the lease over, as far as is known."""

    def check(self) -> None:
        """Raise IncompleteError if another command has taken the lease over."""
        if self.is_lost:
            raise IncompleteError("another command has taken this run over; `privsieve status` shows how far it is")

    def confirm(self) -> None:
        """Check after reading the lease again: before steps that could undo another command's work."""
        current = holder(self._file)
        self.is_lost = self.is_lost or current is None or current.id != self.id
        self.check()

    def renew(self) -> None:
        mine = Holder(id=self.id, host=socket.gethostname(), pid=os.getpid(), renewed=time.time())
        self._file.write(mine.model_dump_json().encode())

    def keep(self) -> None:
        """Renew until `stop`. If the storage fails for a while, the lease only gets older."""
        while not self._done.wait(RENEW_S):
            try:
                current = holder(self._file)
                if current is not None and current.id != self.id:
                    self.is_lost = True
                    return
                self.renew()
            except (OSError, StorageError):
                continue

    def stop(self) -> None:
        """Begin no more renewals."""
        self._done.set()

    def give_back(self) -> None:
        """Remove the lease; one that cannot be removed becomes stale."""
        with suppress(OSError, StorageError):
            current = holder(self._file)
            if current is not None and current.id == self.id:
                self._file.remove()


@contextmanager
def lease(file: Place, url: str, takeover: bool | None) -> Iterator[Lease]:
    """Hold the lease in `file` of the run or release `url`. RunError if another command holds it. takeover: whether the
    user allows taking it over; None for a command without that option."""
    current = holder(file)
    if current is not None and not current.is_stale() and not takeover:
        after = f"try again {STALE_S} s later" if takeover is None else "give --takeover"
        raise RunError(
            f"{url} is being worked on by {current} (seen {current.age_s():.0f} s ago); "
            f"wait for it, or stop it and {after}"
        )
    own_lease = Lease(file)
    thread = threading.Thread(target=own_lease.keep, daemon=True)
    _HELD_HERE.add(own_lease.id)
    try:
        own_lease.renew()
        thread.start()
        try:
            yield own_lease
        finally:
            own_lease.stop()
            thread.join()
            own_lease.give_back()
    finally:
        _HELD_HERE.discard(own_lease.id)


def _runs(pid: int) -> bool:
    with suppress(PermissionError):  # somebody else's
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
