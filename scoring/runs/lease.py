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
"""A lease that was not renewed for so long is taken over without --takeover."""

RENEW_S = 20

MAX_HOST = 253
"""Characters of a host's name."""


_HELD_HERE: set[str] = set()
"""Ids of the leases that threads of this process hold."""


class Holder(BaseModel):
    """The process that holds a lease."""

    model_config = ConfigDict(frozen=True)

    id: str
    host: str
    pid: Annotated[int, Field(ge=1, lt=2**31)]

    renewed: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Unix time in seconds."""

    def __str__(self) -> str:
        return f"process {self.pid} on {printable(self.host[:MAX_HOST])}"

    def age_s(self) -> float:
        return max(0.0, time.time() - self.renewed)

    def is_stale(self) -> bool:
        """Whether the lease was not renewed in time, or was held on this machine by a process that has ended.

        A time far in the future does not count as renewed, since the clocks of the machines agree.
        """
        if abs(time.time() - self.renewed) > STALE_S:
            return True
        if self.host != socket.gethostname():
            return False
        if self.pid == os.getpid():  # of another thread, or of a container that was started again
            return self.id not in _HELD_HERE
        return not _runs(self.pid)


def holder(place: Place) -> Holder | None:
    """Who holds the lease in the file `place`, None if no process does. StorageError if it cannot be read."""
    try:
        return parsed(Holder, place.content())
    except (FileNotFoundError, NotADirectoryError, ValueError):  # none, or cut off while it was written
        return None
    except OSError as error:
        raise StorageError(f"cannot read {place.path}: {reason_of(error)}; remove it") from None


class Lease:
    def __init__(self, place: Place):
        self._place = place
        self.id = uuid.uuid4().hex
        self._lost = False
        self._done = threading.Event()

    def check(self) -> None:
        """IncompleteError once another scan has taken the lease over."""
        if self._lost:
            raise IncompleteError("another command has taken this run over; `privsieve status` shows how far it is")

    def confirm(self) -> None:
        """As `check`, but reads the lease again: before steps that could undo another command's work."""
        found = holder(self._place)
        self._lost = self._lost or found is None or found.id != self.id
        self.check()

    def renew(self) -> None:
        mine = Holder(id=self.id, host=socket.gethostname(), pid=os.getpid(), renewed=time.time())
        self._place.write(mine.model_dump_json().encode())

    def keep(self) -> None:
        """Renews until `stop`. If the storage fails for a while, the lease only gets older."""
        while not self._done.wait(RENEW_S):
            try:
                found = holder(self._place)
                if found is not None and found.id != self.id:
                    self._lost = True
                    return
                self.renew()
            except (OSError, StorageError):
                continue

    def stop(self) -> None:
        """No more renewals begin."""
        self._done.set()

    def give_back(self) -> None:
        """Removes the lease; one that cannot be removed becomes stale."""
        with suppress(OSError, StorageError):
            found = holder(self._place)
            if found is not None and found.id == self.id:
                self._place.remove()


@contextmanager
def lease(place: Place, url: str, takeover: bool | None) -> Iterator[Lease]:
    """Holds the lease in the file `place` of the run or release `url`. RunError if another command holds it.

    takeover: whether the user allowed to take it over; None for a command without that option.
    """
    found = holder(place)
    if found is not None and not found.is_stale() and not takeover:
        after = f"try again {STALE_S} s later" if takeover is None else "give --takeover"
        raise RunError(
            f"{url} is being worked on by {found} (seen {found.age_s():.0f} s ago); wait for it, or stop it and {after}"
        )
    held = Lease(place)
    thread = threading.Thread(target=held.keep, daemon=True)
    _HELD_HERE.add(held.id)
    try:
        held.renew()
        thread.start()
        try:
            yield held
        finally:
            held.stop()
            thread.join()
            held.give_back()
    finally:
        _HELD_HERE.discard(held.id)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
