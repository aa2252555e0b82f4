"""Reads the YAML file of a policy, shipped or a user's own, and refuses mistakes in it, naming the rule, the value and
what to write instead."""

import hashlib
from dataclasses import fields
from importlib import resources
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from ingest.errors import PolicyError, QueryError, did_you_mean
from ingest.formats.members import Members
from ingest.formats.origins import Origins
from ingest.images.rewriting import TARGETS, CoverMethod
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from ingest.storage.web import refuse_credentials
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.policies.policy import (
    ACTIONS,
    PLAIN_ACTIONS,
    WHOLE_IMAGE,
    Fallback,
    Files,
    Policy,
    PolicyFile,
    Promise,
    ResidualLevel,
    Rule,
    SecondEngine,
    Texts,
)
from scoring.policies.reserved import ReservedRule
from scoring.sql.expressions import boolean_expression
from scoring.table import IMAGE_SCHEMA
from scoring.taxonomy import KEYS, TAXONOMY
from scoring.yaml_files import load_yaml, shipped_or_given

_REQUIRED = tuple(name for name, field in PolicyFile.model_fields.items() if field.is_required())
_CHOICES = {
    "members": ("setting", get_args(Members)),
    "files": ("setting", get_args(Files)),
    "texts": ("setting", get_args(Texts)),
    "cover_method": ("method", get_args(CoverMethod)),
    "fallback": ("setting", get_args(Fallback)),
    "origins": ("setting", get_args(Origins)),
    "residual_max_level": ("level", tuple(map(str, get_args(ResidualLevel)))),
    "groups": ("hash", ("phash",)),
    "drawn": ("way", ("audit", "evenly")),
}
_MODELS: dict[str, type[BaseModel]] = {"rules": Rule, "guarantee": Promise}
"""Key that holds keys of its own."""

_PLAIN = ("default", "quarantined", "screened")
"""Keys of which the value is an action that needs no rule."""

_LISTS = {"cover": "write a list such as [faces, plates]", "spare": "write a list such as [face]"}
"""Key of a rule that takes a list -> what to do."""

_WANTED = {
    "string_type": "write a text, in quotes",
    "string_pattern_mismatch": "write a text",
    "string_unicode": "it holds characters that are not valid UTF-8",
    "list_type": "write a list of rules, each with a - before it",
}
"""Pydantic's name of an error -> what to do."""


def load_policy(text: bytes, file: str) -> Policy:
    """Load and check a policy from the bytes of its YAML file. PolicyError names the file, the rule and the problem."""
    try:
        return _checked(text, file)
    except PolicyError as error:
        raise PolicyError(f"{file}: {error}") from None


def _checked(text: bytes, file: str) -> Policy:
    content = load_yaml(text, "the policy", PolicyError)
    if not isinstance(content, dict):
        keys = ", ".join(_REQUIRED)
        raise PolicyError(
            f"the policy is {_kind(content)}; it needs the keys {keys}, see scoring/policies for examples"
        )
    if (base := content.get("base")) is not None:
        if base not in SHIPPED:
            raise PolicyError(f'base: "{base}" is no shipped policy; there are: {", ".join(SHIPPED)}')
        if "name" not in content:
            raise PolicyError("name is missing")
        content = load_yaml(policy_bytes(base), base, PolicyError) | content
    if "verify" in content:
        content["verify"] = _second_engine(content["verify"])
    try:
        parsed = PolicyFile.model_validate(content)
    except ValidationError as error:
        raise PolicyError(_explained(error)) from None
    names = [rule.name for rule in parsed.rules]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f'two rules have the name "{name}"; give each its own')
        if name.strip().startswith("(") and name.strip().endswith(")"):
            kept = ", ".join(ReservedRule)
            raise PolicyError(f'a rule has the name "{name}", but names in brackets are kept for {kept}; rename it')
    for number, rule in enumerate(parsed.rules, 1):
        _check_cover(number, rule)
    if parsed.texts == "masked" and parsed.members == "all":
        raise PolicyError("texts: masked cannot mask all members, since some are no text; write members: listed")
    if parsed.residual_max_level is not None and not any(rule.then == "redact" for rule in parsed.rules):
        raise PolicyError("residual_max_level is about covered pictures, and no rule has then: redact; leave it out")
    policy = Policy(
        **dict(parsed),
        file=file,
        sha256=hashlib.sha256(text).hexdigest(),
        sql=tuple(_condition(number, rule) for number, rule in enumerate(parsed.rules, 1)),
    )
    if policy.origins == "kept" and not policy.writes_again:
        raise PolicyError("origins is about cleaned and covered pictures, and the policy has none; leave it out")
    if policy.writes_again and policy.members == "all" and policy.origins == "removed":
        raise PolicyError(
            "members: all releases files that nothing reads, and these may lead to the original of a cleaned or "
            "covered picture; write members: listed, or origins: kept"
        )
    return policy


def _second_engine(given: Any) -> SecondEngine:
    """Return the other engine that `verify` names. PolicyError; StorageError if a file that it names cannot be read."""
    known = ["engine", *(option.name for option in fields(EngineOptions) if option.name not in SET_BY_SCANS)]
    if not isinstance(given, dict) or not isinstance(given.get("engine"), str):
        raise PolicyError("verify names no engine; write it as verify: {engine: openai, model: NAME}")
    values = dict[str, Any]()
    for key, value in given.items():
        if key not in known:
            raise PolicyError(
                f'verify: unknown key "{key}"{did_you_mean(str(key), known)}; there are: {", ".join(known)}'
            )
        values[key] = tuple(value) if isinstance(value, list) else value
        if isinstance(value, str):
            refuse_credentials(value)
            if key == "prompt_file":
                values[key] = given_content(place(value), f"verify: {key} {value}")
                load_yaml(values[key], f"verify: {key} {value}", PolicyError)
    try:
        return SecondEngine(values.pop("engine"), TypeAdapter(EngineOptions).validate_python(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise PolicyError(f"verify {first['loc'][0]}: {first['msg'].lower()}") from None


def _condition(number: int, rule: Rule) -> str:
    try:
        return boolean_expression(rule.when, IMAGE_SCHEMA)
    except QueryError as error:
        raise PolicyError(f'rule {number} "{rule.name}", when: {error}') from None


def _check_cover(number: int, rule: Rule) -> None:
    where, known = f'rule {number} "{rule.name}"', (*TARGETS, WHOLE_IMAGE, *KEYS)
    if rule.then != "redact":
        for name in ("cover", "spare", "fallback"):
            if name in rule.model_fields_set:
                raise PolicyError(f"{where}: {name} is for then: redact; leave it out")
        return
    if not rule.cover:
        raise PolicyError(f"{where}: redact needs cover: a list such as [faces, plates], or [image]")
    for name in rule.cover:
        if name not in known:
            raise PolicyError(
                f'{where}: "{name}" in cover is nothing that can be covered{did_you_mean(name, known)}; '
                f"there are: {', '.join(known)}"
            )


def _explained(error: ValidationError) -> str:
    # A misspelt key also leaves its right name missing: report the cause, not the consequence.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    path = [str(part + 1) if isinstance(part, int) else part for part in first["loc"]]
    where = " ".join(path).replace("rules ", "rule ")
    value = first["input"]
    if first["type"] in ("extra_forbidden", "invalid_key"):  # invalid: such as a number
        key = str(first["loc"][-1])
        known = _MODELS.get(str(first["loc"][0]), PolicyFile).model_fields if len(path) > 1 else PolicyFile.model_fields
        rule = where.removesuffix(key).strip()
        comma = "; if it is part of a text with a comma, put that text in quotation marks" if value is None else ""
        return (
            f'{rule + ": " if rule else ""}unknown key "{key}"{did_you_mean(key, known)}{comma}; there are: '
            f"{', '.join(known)}"
        )
    if first["type"] == "literal_error":
        noun, choices = _CHOICES.get(str(path[-1]), ("action", PLAIN_ACTIONS if where in _PLAIN else ACTIONS))
        if not isinstance(value, str):
            return f"{where} is {_kind(value)}; the {noun}s are: {', '.join(choices)}"
        return (
            f'{where}: "{value}" is not a known {noun}{did_you_mean(value, choices)}; there are: {", ".join(choices)}'
        )
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "model_type":
        model = _MODELS[path[0]]
        what = "a rule" if model is Rule else path[0]
        return f"{where} is {_kind(value)}; {what} has the keys {', '.join(model.model_fields)}"
    wanted = _LISTS.get(path[-1], _WANTED.get(first["type"]))
    if wanted is None:
        return f"{where}: {first['msg'].lower()}"
    return f"{where} is {_kind(value)}; {wanted}"


def _kind(value: object) -> str:
    """Describe in plain words what YAML read the value as."""
    if isinstance(value, str):
        return "a text" if value.strip() else "empty"
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"{str(value).lower()}, a yes or no"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, dict):
        return "a group of keys"
    return f"a {type(value).__name__}"


SHIPPED = ("strict", "identity-documents-only", "research", "redacted") if TAXONOMY.is_published else ()
"""None for another taxonomy, whose attributes they do not know."""


def policy_bytes(name: str) -> bytes:
    """Return the YAML of a shipped policy (`strict`) or of a file. PolicyError if there is neither.

    StorageError if the file cannot be read.
    """
    try:
        return shipped_or_given("policy", name, SHIPPED, resources.files("scoring.policies"), PolicyError)
    except PolicyError:
        if not SHIPPED:
            raise PolicyError(
                f"there is no policy {name}; give a YAML file, since the shipped policies are of the published taxonomy"
            ) from None
        raise
