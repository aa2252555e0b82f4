"""Reads the YAML file of a policy, shipped or a user's own, and refuses mistakes in it, naming the rule, the value and
what to write instead."""

import hashlib
import json
import re
from dataclasses import fields
from importlib import resources
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ingest.errors import PolicyError, QueryError, StorageError, did_you_mean
from ingest.images.pixels import TARGETS
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from ingest.storage.web import refuse_credentials
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.policies.policy import WHOLE_IMAGE, Policy, PolicyFile, Promise, Rule, SecondEngine
from scoring.policies.reserved import ReservedRule
from scoring.sql.expressions import boolean_expression
from scoring.table import IMAGE_SCHEMA
from scoring.taxonomy import KEYS, TAXONOMY
from scoring.yaml_files import load_yaml, shipped_or_given

_REQUIRED = tuple(name for name, field in PolicyFile.model_fields.items() if field.is_required())
_MODELS: dict[str, type[BaseModel]] = {"rules": Rule, "guarantee": Promise}
"""Key that holds keys of its own."""


def load_policy(text: bytes, file: str) -> Policy:
    """Load and check a policy from the bytes of its YAML file. PolicyError names the file, the rule and the problem;
    StorageError, the file and what of `verify` cannot be read."""
    try:
        return _checked(text, file)
    except (PolicyError, StorageError) as error:
        raise type(error)(f"{file}: {error}") from None


def _checked(text: bytes, file: str) -> Policy:
    content = load_yaml(text, "the policy", PolicyError)
    if not isinstance(content, dict):
        raise PolicyError(f"a policy needs the keys {', '.join(_REQUIRED)}; see scoring/policies for examples")
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
            try:
                refuse_credentials(value)
                if key == "prompt_file":
                    values[key] = given_content(place(value), value)
                    load_yaml(values[key], value, PolicyError)
            except (PolicyError, StorageError) as error:
                raise type(error)(f"verify: {key}: {error}") from None
    try:
        return SecondEngine(values.pop("engine"), TypeAdapter(EngineOptions).validate_python(values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise PolicyError(f"verify: {first['loc'][0]}: {first['msg'].lower()}") from None


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
    first = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
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
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "model_type":
        return f"{where} needs the keys {', '.join(_MODELS[path[0]].model_fields)}"
    if first["type"] == "string_pattern_mismatch":
        return f"{where} is empty"
    if first["type"] == "literal_error" and isinstance(value, str):
        choices = re.findall("'([^']+)'", first["ctx"]["expected"])
        return f'{where}: "{value}" is none of {", ".join(choices)}{did_you_mean(value, choices)}'
    is_plain = value is None or isinstance(value, (bool, int, float))
    return f"{where}{f' is {json.dumps(value)}' if is_plain else ''}: {first['msg'][0].lower()}{first['msg'][1:]}"


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
