"""The texts of a protocol, the prompts that are made of them, and its version.

The texts are in `texts/<name>.yaml`. A file of the user can replace any of them.

A prompt file is YAML (or JSON) in the form of the shipped ones: name of a text -> text. Any of them may be missing;
under `questions` it can replace the question about single attributes, and `image_first: true` puts the image before
the text. Words in braces, such as {attributes}, are filled in; the shipped texts show which there are, and an unknown
one is refused. {num_attributes} is the size of the taxonomy.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from string import ascii_uppercase
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import EngineError, did_you_mean
from ingest.sample import printable
from scoring.protocols.interface import Image, Message, Prompt, Text
from scoring.taxonomy import ATTRIBUTES, KEYS
from scoring.yaml_files import load_yaml

Wording = Annotated[str, Field(max_length=20_000)]


class Texts(BaseModel):
    """Base of a protocol's texts and settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    image_first: bool = False
    """Whether the image comes before the text. Then engines compute the text again for every image."""


class TextsOfAttributes(Texts):
    """Texts of a protocol that asks about every attribute."""

    questions: dict[str, Wording]
    """Attribute key -> the question about it."""

    attribute_line: Wording
    """One line of {attributes}, with {key} and, if needed, {number}, {letter} and {question}."""

    def attributes(self) -> str:
        """Return the value of {attributes}."""
        return "\n".join(self.attribute_lines())

    def attribute_lines(self) -> list[str]:
        """Return one line per attribute, in canonical order."""
        lines = []
        for number, key in enumerate(KEYS, 1):
            values = {"number": str(number), "letter": letter(key), "key": key, "question": self.questions[key]}
            lines.append(fill("attribute_line", self.attribute_line, values))
        must_hold("attribute_line", self.attribute_line, "key", "the attributes have no names")
        return lines

    def asking(self, name: str, values: Mapping[str, str]) -> str:
        """Fill the text of this name with the attributes and with `values`.

        EngineError if it does not ask about the attributes.
        """
        text = getattr(self, name)
        filled = fill(name, text, {"attributes": self.attributes(), **values})
        must_hold(name, text, "attributes", "the model does not learn what to look for")
        return filled


def letter(key: str) -> str:
    """Return the letter of an attribute: A, B, … Z, AA, BB, …"""
    number = KEYS.index(key)
    return ascii_uppercase[number % 26] * (1 + number // 26)


class OneQuestionTexts(TextsOfAttributes):
    """Texts of a protocol that asks about all attributes at once."""

    system: Wording
    instructions: Wording
    counterfactual: Wording

    def question(self, variants: Collection[str], values: Mapping[str, str]) -> str:
        """Return the instructions, after the warning that faces are anonymised if that variant is chosen."""
        instructions = self.asking("instructions", values)
        if "counterfactual" not in variants:
            return instructions
        return f"{fill('counterfactual', self.counterfactual, {})}\n\n{instructions}"


TextsType = TypeVar("TextsType", bound=Texts)

FOLDER = resources.files("scoring.protocols").joinpath("texts")


def load_texts(protocol: str, model: type[TextsType], replacing: bytes | None) -> TextsType:
    """Load the shipped texts of a protocol, replaced by those of a prompt file.

    EngineError: not YAML, an unknown name, a name twice, or a value that is not text.
    """
    name = f"{protocol}.yaml"
    shipped = parse_mapping(FOLDER.joinpath(name).read_bytes(), f"texts/{name}")
    if issubclass(model, TextsOfAttributes):
        shipped["questions"] = {attribute.key: attribute.question for attribute in ATTRIBUTES}
    if replacing is not None:
        own_texts = parse_mapping(replacing, "the prompt file")
        _check_names(own_texts, model.model_fields, "text", f"the prompt file, for the {protocol} protocol")
        questions = own_texts.pop("questions", {})
        if not isinstance(questions, dict):
            raise EngineError("the prompt file: questions must map attribute keys to texts")
        if questions:
            _check_names(questions, KEYS, "attribute", "the prompt file, questions")
            shipped["questions"] |= questions
        shipped |= own_texts
    # Before anything is hashed: a text that has the number itself is the same text.
    for name, text in shipped.items():
        if isinstance(text, str):
            shipped[name] = text.replace("{num_attributes}", str(len(KEYS)))
    try:
        return model.model_validate(shipped)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ", ".join(str(part) for part in first["loc"])
        raise EngineError(f"the prompt file: {where}: {first['msg'].lower()}") from None


def fill(name: str, text: str, values: Mapping[str, str]) -> str:
    """Replace the {words} of `text`, in one pass. EngineError for a word that is not in `values`.

    name: name of the text, for the error.
    """
    for word in re.findall(r"\{(\w+)\}", text):
        if word not in values:
            known = ", ".join(f"{{{value}}}" for value in values) if values else "none"
            raise EngineError(
                f"the prompt file: {name}: no {{{word}}} is known{did_you_mean(word, values)}; there are: {known}"
            )
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text)


def must_hold(name: str, text: str, word: str, otherwise: str) -> None:
    """Raise EngineError if `word` is not in `text`. otherwise: the consequence. name: name of the text."""
    if f"{{{word}}}" not in text:
        raise EngineError(f"the prompt file: {name} must hold {{{word}}}, else {otherwise}")


def parse_mapping(content: bytes, name: str) -> dict[str, Any]:
    """Parse a YAML or JSON file to a mapping with names as keys; EngineError if it holds anything else.

    Only true and false are truth values: yes and no are words.
    """
    parsed = load_yaml(content, name, EngineError, yes_is_text=True)
    if not isinstance(parsed, dict) or not all(isinstance(key, str) for key in parsed):
        raise EngineError(f"{name} must hold names and their values, one `name: value` each")
    return parsed


def _check_names(given: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], noun: str, where: str) -> None:
    for name in given:
        if name not in known:
            shown, there_are = printable(str(name)), ", ".join(known)
            raise EngineError(
                f'{where}: no {noun} is named "{shown}"{did_you_mean(shown, known)}; there are: {there_are}'
            )


ANNOUNCES_IMAGE = "The picture:"
"""Last words of the shipped texts before the image."""


def with_image(texts: Texts, system: str, text: str) -> tuple[Message, ...]:
    """Build the chat about an image: the system's text, if it is not empty, then the text, then the image.

    With `texts.image_first` the image comes before the text, without the words that announce it at the end.
    """
    if texts.image_first:
        return (*_system(system), Message("user", (Image(), Text(text.removesuffix(ANNOUNCES_IMAGE).rstrip()))))
    return (*_system(system), Message("user", (Text(text), Image())))


def without_image(system: str, text: str) -> tuple[Message, ...]:
    """Build the chat of a pass that does not see the image."""
    return (*_system(system), Message("user", (Text(text),)))


def _system(text: str) -> tuple[Message, ...]:
    return (Message("system", (Text(text),)),) if text.strip() else ()


def version(name: str, revision: int, texts: Texts, prompts: Sequence[Prompt]) -> str:
    """Return `<name>-<revision> <hash>`; the hash changes with every text and setting.

    revision: raised by hand when a protocol asks or reads answers in a new way.
    """
    content = {
        "name": name,
        "revision": revision,
        "texts": texts.model_dump(),
        "prompts": [dataclasses.asdict(prompt) for prompt in prompts],
        "thresholds": {},  # as it was when there were some, so that the hashes stay
    }
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{name}-{revision} {hashlib.sha256(canonical.encode('ascii')).hexdigest()[:12]}"
