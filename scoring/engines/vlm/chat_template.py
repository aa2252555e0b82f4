"""A model's chat template is a program: before it is run here, a child process runs it within limits.

    python -m scoring.engines.vlm.chat_template     the child; JSON on stdin, the length of the texts on stdout

transformers keeps a template from running code, but not from looping for hours or making a text of gigabytes.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ingest.errors import EngineError

MAX_CPU_S = 10
"""Processor time of the child for its templates. A real one takes milliseconds."""

MAX_MEMORY_BYTES = 512 * 2**20
"""Memory for the templates, in addition to the child's own at its start. Only Linux enforces it."""

MAX_CHARACTERS = 10**7
"""Limit of a text; no model takes such a long prompt."""

START_LIMIT_S = 600
"""Time limit of the whole child, which first imports transformers."""


def check_template(name: str, template: str, words: Mapping[str, Any], chats: Sequence[Sequence[Any]]) -> None:
    """Raise EngineError if the template takes too much time or memory for one of the chats.

    Other faults of the template do not count here. name: of the model. words: the special tokens that the template may
    use. chats: messages as transformers takes them.
    """
    fault = _fault(json.dumps({"template": template, "words": dict(words), "chats": chats}, default=str))
    if fault is not None:
        raise EngineError(f'the model "{name}" cannot be asked: its chat template {fault}; choose another model')


@lru_cache(maxsize=64)
def _fault(task: str) -> str | None:
    """Return what is wrong with the template, which a process tries once. task: template, words and chats, as JSON."""
    path = os.pathsep.join(p for p in sys.path if p)
    # -P: nothing is imported from the working directory, which is the user's.
    command = [sys.executable, "-P", "-m", "scoring.engines.vlm.chat_template"]
    environment = os.environ | {"PYTHONPATH": path}
    try:
        process = subprocess.run(
            command, input=task.encode(), env=environment, capture_output=True, timeout=START_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {START_LIMIT_S} s"
    if process.returncode == -signal.SIGXCPU:
        return f"takes more than {MAX_CPU_S} s"
    if process.returncode == -signal.SIGKILL or process.stdout == b"MemoryError":
        return f"takes more than {MAX_MEMORY_BYTES // 2**20} MB of memory"
    if process.returncode != 0 or not process.stdout.isdigit():
        return f"could not be tried in a process of its own (it ended with {process.returncode})"
    if int(process.stdout) > MAX_CHARACTERS:
        return f"makes a text of {int(process.stdout):,} characters"
    return None


def _serve() -> None:
    """Run in the child: write the length of the longest text, 0 if the template raises, or `MemoryError`."""
    # transformers would import it, which takes longer than all else here, and no template needs it.
    sys.modules["torch"] = None  # type: ignore[assignment]
    from transformers.utils.chat_template_utils import render_jinja_template

    task = json.load(sys.stdin)
    _limit_this_process()
    longest = 0
    for chat in task["chats"]:
        is_answered = chat[-1]["role"] == "assistant"
        try:
            texts, _ = render_jinja_template(
                [chat], chat_template=task["template"], add_generation_prompt=not is_answered, **task["words"]
            )
            longest = max(longest, *map(len, texts))
        except MemoryError:
            os.write(1, b"MemoryError")
            return
        except Exception:
            continue
    os.write(1, str(longest).encode())


def _limit_this_process() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + MAX_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), open("/proc/self/statm") as file:
        num_bytes = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + MAX_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))


if __name__ == "__main__":
    _serve()
