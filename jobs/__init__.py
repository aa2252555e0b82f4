"""Room 4 of 4: the commands, each in a file or a folder of its name.

The command `diff` is `diff.py`; `scan` is `scan/`, and `scan/command.py` declares its options. Not commands: `cli.py`
lists them, `console/` and `runtime/` are what they share, `deploy/` and `demo/` are files for users.
May import: `ingest`, `scoring` and `reports`. Imported by: the package `privsieve`.
Start at: `cli.py` for the list of commands, then the file of one command.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType


class HiddenRoomError(ImportError):
    """Another package has the name of a room and is found first."""


def _refuse_hidden_rooms() -> None:
    """HiddenRoomError now, where any import would otherwise fail somewhere inside the other package."""
    top = Path(__file__).resolve().parent.parent
    for room in ("ingest", "scoring", "reports"):
        spec = find_spec(room)
        if spec and spec.origin and Path(spec.origin).resolve().parent != top / room:
            hides = f"{Path(spec.origin).parent} hides privsieve's own package {room}"
            advice = "take it off PYTHONPATH, or install privsieve into an environment of its own"
            raise HiddenRoomError(f"{hides}; {advice}")


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For commands, which import this package before they can catch anything."""
    if not isinstance(error, HiddenRoomError):
        sys.__excepthook__(kind, error, trace)
        return
    print(f"privsieve: {error}", file=sys.stderr)
    os._exit(2)


sys.excepthook, _excepthook = _one_line, sys.excepthook
_refuse_hidden_rooms()
sys.excepthook = _excepthook
