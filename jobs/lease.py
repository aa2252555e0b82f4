"""One scan at a time on a run: `RUN/lease.json` says who scans and is renewed while it does.

Results would stay right if two scans ran at once (the same slice always gives the same file), but the work would be
done twice. The clocks of the machines must agree to well within `STALE_S`.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from ingest.errors import IncompleteError, RunError, StorageError
from ingest.storage import Place

STALE_S = 120
"""A lease that was not renewed for so long is taken over without being asked."""

RENEW_S = 20


@dataclass(frozen=True)
class Holder:
    """Who scans. renewed: Unix time in seconds."""

    id: str
    host: str
    pid: int
    renewed: float

    def is_stale(self) -> bool:
        """Not renewed in time, or of this machine and its process is gone."""
        if time.time() - self.renewed > STALE_S:
            return True
        # This very process number: a container that was started again.
        return self.host == socket.gethostname() and (self.pid == os.getpid() or not _runs(self.pid))


def holder(place: Place) -> Holder | None:
    """Who holds the lease in the file `place`, if anybody."""
    try:
        return Holder(**json.loads(place.content()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):  # none, or cut off while it was written
        return None


class Lease:
    def __init__(self, place: Place):
        self._place = place
        self._id = uuid.uuid4().hex
        self._lost = False
        self._done = threading.Event()

    def check(self) -> None:
        """IncompleteError once another scan has taken the lease over."""
        if self._lost:
            raise IncompleteError("another command has taken this run over; `privsieve status` shows how far it is")

    def confirm(self) -> None:
        """As `check`, but asks the storage: for steps that could undo what another one did."""
        found = holder(self._place)
        self._lost = self._lost or found is None or found.id != self._id
        self.check()

    def renew(self) -> None:
        mine = Holder(self._id, socket.gethostname(), os.getpid(), time.time())
        self._place.write(json.dumps(asdict(mine)).encode())

    def keep(self) -> None:
        """Renews until the end; a storage that fails for a while only lets the lease grow old."""
        while not self._done.wait(RENEW_S):
            try:
                found = holder(self._place)
                if found is not None and found.id != self._id:
                    self._lost = True
                    return
                self.renew()
            except (OSError, StorageError):
                continue

    def stop(self) -> None:
        """No more renewals begin."""
        self._done.set()

    def give_back(self) -> None:
        """A lease that cannot be removed now grows stale."""
        with suppress(OSError, StorageError):
            found = holder(self._place)
            if found is not None and found.id == self._id:
                self._place.remove()


@contextmanager
def lease(place: Place, url: str, takeover: bool | None) -> Iterator[Lease]:
    """Holds the lease in the file `place` of the run or release `url`. RunError where another command is at work.

    takeover: what the user said; None for a command that does not ask.
    """
    found = holder(place)
    if found is not None and not found.is_stale() and not takeover:
        age = max(0, time.time() - found.renewed)
        after = f"try again {STALE_S} s later" if takeover is None else "give --takeover"
        raise RunError(
            f"{url} is being worked on by process {found.pid} on {found.host} (seen {age:.0f} s ago); "
            f"wait for it, or stop it and {after}"
        )
    held = Lease(place)
    held.renew()
    thread = threading.Thread(target=held.keep, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        held.stop()
        thread.join()
        held.give_back()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
