"""A model's chat template is a program: before it is run here, a child process runs it within limits.

transformers keeps a template from running code, but not from looping for hours or making a text of gigabytes.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ingest.child import Ask, LimitedChild, LimitError, Limits
from ingest.errors import EngineError
from scoring.taxonomy import CARRIED_VARIABLES

LIMITS = Limits(cpu_s=10, memory_bytes=512 * 2**20, answer_bytes=100)
"""For all chats together. A real template takes milliseconds."""

MAX_CHARACTERS = 10**7
"""Limit of a text; no model takes such a long prompt."""


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
    try:
        child = LimitedChild(_renderer, LIMITS, CARRIED_VARIABLES)
        num_characters = int(child.ask(task))
    except LimitError as error:
        return str(error)
    child.close()
    return f"makes a text of {num_characters:,} characters" if num_characters > MAX_CHARACTERS else None


def _renderer(_: Ask) -> Callable[[str], bytes]:
    # transformers would import it, which takes longer than all else here, and no template needs it.
    sys.modules["torch"] = None  # type: ignore[assignment]
    import transformers.utils.chat_template_utils  # noqa: F401

    return _num_characters


def _num_characters(task: str) -> bytes:
    """Return the length of the longest text as digits, 0 if the template raises for each chat. Runs in the child."""
    from transformers.utils.chat_template_utils import render_jinja_template

    given, longest = json.loads(task), 0
    for chat in given["chats"]:
        is_answered = chat[-1]["role"] == "assistant"
        try:
            texts, _ = render_jinja_template(
                [chat], chat_template=given["template"], add_generation_prompt=not is_answered, **given["words"]
            )
            longest = max(longest, *map(len, texts))
        except MemoryError:
            raise
        except Exception:  # the edge: what a foreign template raises
            continue
    return b"%d" % longest
