"""Room 4 of 4: the work that needs more than a run: scans, releases, pages on this machine; and the commands.

A command is a file of `commands/` that declares options, calls a function of a folder named after the work, and prints.
`console/` and `runtime/` are what these folders share; `deploy/` and `demo/` are files for users.
May import: `ingest`, `scoring` and `reports`. Imported by: the package `privsieve`.
Start at: `cli.py` for the list of commands, then the file of one command.
"""

from importlib.util import find_spec
from pathlib import Path


def hidden_room() -> str | None:
    """Return what hides one of our rooms, and what to do about it, in one line. None if nothing does.

    If Python found another package called `ingest` first, imports would fail somewhere inside it. So a command, a
    machine of a cluster and `import privsieve` call this first, before they import anything of another room.
    """
    top = Path(__file__).resolve().parent.parent
    for room in ("ingest", "scoring", "reports"):
        spec = find_spec(room)
        if spec and spec.origin and Path(spec.origin).resolve().parent != top / room:
            return (
                f"{Path(spec.origin).parent} hides privsieve's own package {room}; take it off PYTHONPATH, or install "
                "privsieve into an environment of its own"
            )
    return None
