"""`python -m tests.sessions [NAME ...]`: writes anew what the texts say is printed."""

import sys
import tempfile
from pathlib import Path

import tests.conftest
from tests.sessions.session import TEXTS, run, sessions

assert tests.conftest
for file in sorted(TEXTS.glob("*.txt")):
    if sys.argv[1:] and file.stem not in sys.argv[1:]:
        continue
    parts = file.read_text().partition("== ")[:1]
    for session in sessions(file):
        with tempfile.TemporaryDirectory() as folder:
            parts += (session.written(run(session, Path(folder))),)
    file.write_text(parts[0] + "\n".join(parts[1:]))
