"""YAML that people write by hand: policies, wordings, thresholds."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from ingest.sample import printable


class YamlError(Exception):
    """The message names the file, the problem and its position, in one line."""


def load_yaml(content: bytes, what: str, *, yes_is_text: bool = False) -> Any:
    """What a file of YAML or JSON holds. YamlError where it is neither, or a key stands twice.

    what: the file, in words. yes_is_text: yes, no, on and off are texts, as in YAML 1.2, and no truth values.
    """
    try:
        return yaml.load(content, _LoaderOfTexts if yes_is_text else _Loader)
    except _TwiceError as error:
        raise YamlError(f"{what}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: such as a date that does not exist
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlError(f"{what} is not valid YAML{at}") from None


class _TwiceError(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """YAML as usual, but a key that comes twice is an error: plain YAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                line = key.start_mark.line + 1
                raise _TwiceError(
                    f'the key "{printable(key.value)}" stands twice, the second time at line {line}; keep one'
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# A number to JSON and to people, a text to YAML 1.1.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$", re.ASCII), list("-+0123456789")
)


class _LoaderOfTexts(_Loader):
    """With the truth values of YAML 1.2."""


_LoaderOfTexts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_LoaderOfTexts.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
