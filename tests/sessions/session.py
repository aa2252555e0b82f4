"""What a user types and reads, as texts that hold both.

A text has sessions. Each begins with `== ` and a sentence, and runs in a folder of its own. A line `$ ` is a command,
lines `> ` continue it, as in a shell. What it prints stands below: `! ` before a line of stderr, and last the exit code
as `[2]` where it is not 0. `privsieve`, and what is in `tests/sessions/commands.py`, run in this process, all else in a
shell.

`python -m tests.sessions [NAME ...]` writes anew what is printed; read its diff before you commit it.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.jobs.made import privsieve
from tests.sessions import commands

TEXTS = Path(__file__).parent / "texts"
UNTOLD = (
    (r"\.[0-9a-f]{8}\.part\b", ".RANDOM.part"),
    (r"process \d+ on \S+", "process ID on HOST"),
    (r"seen \d+ s ago", "seen N s ago"),
    (r"screen sha256 was \w+…, now \w+…", "screen sha256 was ONE, now ANOTHER"),
)
"""What differs from one time to the next, and what stands for it."""


@dataclass(frozen=True)
class Session:
    """A story of some commands."""

    text: str
    """Name of its file, without .txt."""

    head: str
    """The sentence, and notes below it."""

    typed: tuple[str, ...]

    printed: tuple[str, ...]
    """By each command, as the text says."""

    @property
    def name(self) -> str:
        return self.head.partition("\n")[0]

    @property
    def is_slow(self) -> bool:
        """It takes seconds."""
        return self.name.endswith("(slow)")

    def written(self, printed: Sequence[str]) -> str:
        pairs = zip(self.typed, printed, strict=True)
        return f"== {self.head}\n" + "".join(f"$ {typed.replace(NEWLINE, CONTINUED)}\n{out}" for typed, out in pairs)


NEWLINE, CONTINUED = "\n", "\n> "


def sessions(file: Path) -> Iterator[Session]:
    for part in re.split(r"(?m)^== ", file.read_text())[1:]:
        head, *rest = re.split(r"(?m)^\$ ", part)
        typed, printed = list[str](), list[str]()
        for piece in rest:
            lines = piece.splitlines()
            more = next((n for n, line in enumerate(lines[1:], 1) if not line.startswith("> ")), len(lines))
            typed.append("\n".join([lines[0], *(line[2:] for line in lines[1:more])]))
            printed.append("".join(f"{line}\n" for line in lines[more:]).rstrip("\n"))
        yield Session(file.stem, head.strip(), tuple(typed), tuple(f"{out}\n" if out else "" for out in printed))


def run(session: Session, folder: Path) -> list[str]:
    """What each command prints."""
    with contextlib.chdir(folder):
        return [_printed(typed, folder) for typed in session.typed]


def _printed(typed: str, folder: Path) -> str:
    out, err = io.StringIO(), io.StringIO()
    words = _words(typed)
    if words[:1] == ["privsieve"]:
        asked, _, file = (words, None, None) if ">" not in words else (words[: words.index(">")], ">", words[-1])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = privsieve(*asked[1:])
        _refuse_bad_manners(typed, code, out.getvalue(), err.getvalue())
        if file is not None:
            Path(file).write_text(out.getvalue())
            out = io.StringIO()
    elif words and words[0] in commands.COMMANDS:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = commands.COMMANDS[words[0]](*words[1:]) or 0
    else:
        environment = os.environ | {"LC_ALL": "C.UTF-8"}
        done = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, env=environment)
        code = done.returncode
        out.write(done.stdout)
        err.write(done.stderr)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    lines += [f"! {line}".rstrip() for line in err.getvalue().splitlines()]
    lines += [f"[{code}]"] if code else []
    text = re.sub(r"\n+\Z", "\n", "".join(f"{line}\n" for line in lines)).replace(str(folder), "DIR")
    for pattern, mark in UNTOLD:
        text = re.sub(pattern, mark, text)
    return text


def _words(typed: str) -> list[str]:
    return [] if re.match(r"(cat|printf|echo|ln|sh|grep|ssh-keygen)\b", typed) else shlex.split(typed)


def _refuse_bad_manners(typed: str, code: int, out: str, err: str) -> None:
    """Of all commands: a wrong call is one line on stderr, and no control character is printed."""
    assert "Traceback" not in out + err, f"{typed}\n{out}{err}"
    assert not {c for c in out + err if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}, typed
    if code == 2:
        assert len(err.splitlines()) == 1, f"{typed}\n{err}"
        assert err.startswith("privsieve: "), f"{typed}\n{err}"
