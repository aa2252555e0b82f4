"""A protocol's prompt as text, for people to read before a scan."""

from scoring.engine_facts import PromptPart
from scoring.protocols.interface import FirstToken, Protocol, Slots, Text


def prompt_parts(asked: Protocol) -> tuple[PromptPart, ...]:
    """Return every text of the prompt in order, then the form of the answer."""
    parts = [
        PromptPart(
            message.role,
            "\n".join(_lines(part.text) if isinstance(part, Text) else "[the picture]" for part in message.parts),
        )
        for message in asked.prompt.messages
    ]
    wanted = asked.prompt.wanted
    if isinstance(wanted, Slots):
        form = "".join(piece + wanted.placeholder for piece in wanted.pieces)
        parts.append(PromptPart("assistant, whose probabilities at the digits are read", _lines(form)))
    elif isinstance(wanted, FirstToken):
        choices = " against ".join(" or ".join(spellings) for spellings in wanted.choices)
        parts.append(PromptPart(f"assistant: the probability that the answer begins with {choices}; nothing generated"))
    else:
        form = "a JSON form" if wanted.json_schema else f"as {wanted.regex}" if wanted.regex else "free"
        parts.append(PromptPart(f"assistant: {form}, at most {wanted.max_tokens} tokens"))
    if asked.passes > 1:
        parts.append(PromptPart(f"then {asked.passes - 1} more without the picture, about the answer"))
    return tuple(parts)


def _lines(text: str) -> str:
    return text.removesuffix("\n")
