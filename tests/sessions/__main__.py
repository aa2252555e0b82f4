"""`python -m tests.sessions [NAME ...]`: writes anew what the texts say is printed."""

import sys
import tempfile
from pathlib import Path

import tests.conftest
from tests.sessions.session import TEXTS, run, sessions

assert tests.conftest  # as in the tests
for file in sorted(TEXTS.glob("*.txt")):
    if sys.argv[1:] and file.stem not in sys.argv[1:]:
        continue
    parts = [file.read_text().partition("== ")[0].strip()]
    for session in sessions(file):
        with tempfile.TemporaryDirectory() as folder:
            try:
                parts += [session.written(run(session, Path(folder))).strip()]
            except Exception as error:
                print(f"{file.stem}: {session.name}: {error!r}")
                parts += [session.written(session.printed).strip()]
    file.write_text("\n\n".join(parts) + "\n")
