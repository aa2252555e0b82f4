"""Room 4 of 4: the verbs, one file each, and all side effects.

What lives here: `fetch`, `plan`, `scan`, `status`, `compact`, `report`, `sql`, `filter`; Ray; the run folder; shipped
policies, deployment files and the demo corpus.
May import: all other rooms. Imported by: nobody but tests.
Start at: `cli.py` for the list of verbs, then the file of the verb, read from top to bottom.
"""

import sys
from importlib.util import find_spec
from pathlib import Path


def _refuse_hidden_rooms() -> None:
    """Ends the process where another package of the name of a room comes first, which would fail somewhere in it."""
    top = Path(__file__).resolve().parent.parent
    for room in ("ingest", "scoring", "reports"):
        spec = find_spec(room)
        if spec and spec.origin and Path(spec.origin).resolve().parent != top / room:
            hides = f"{Path(spec.origin).parent} hides privsieve's own package {room}"
            advice = "take it off PYTHONPATH, or install privsieve into an environment of its own"
            print(f"privsieve: {hides}; {advice}", file=sys.stderr)
            sys.exit(2)


_refuse_hidden_rooms()
