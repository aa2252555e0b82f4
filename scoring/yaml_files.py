"""YAML that people write by hand: policies, wordings, thresholds.

A small file can expand to a huge value: an alias repeats a value, and a merge key (`<<`) copies its fields. The limits
here apply to the value with all aliases expanded.
"""

import re
from collections.abc import Collection, Hashable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from ingest.errors import MissingFileError, PrivsieveError, did_you_mean
from ingest.sample import printable
from ingest.storage.given_files import MAX_SETTINGS_BYTES, given_content
from ingest.storage.place import place

MAX_VALUES = 100_000
"""Limit of keys, numbers and texts in a file; a value that an alias repeats counts each time."""

MAX_DEPTH = 50
"""Maximum depth of nested lists and mappings."""

MAX_NUMBER_CHARACTERS = 100
"""Limit of a number, since reading a longer one, such as `1:30:30:…` of base 60, may take minutes."""


def shipped_or_given(
    kind: str,
    name: str,
    shipped: Collection[str],
    folder: Traversable,
    error: type[PrivsieveError],
    max_bytes: int = MAX_SETTINGS_BYTES,
) -> bytes:
    """Read a YAML file that ships in `folder`, by its name without extension, or a user's own. `error` if there is
    neither, StorageError if a file cannot be read.

    kind: the word for such a file, and the option that names it: `policy`.
    """
    if name in shipped:
        return folder.joinpath(f"{name}.yaml").read_bytes()
    try:
        return given_content(place(name), f"--{kind} {name}", max_bytes)
    except MissingFileError:
        path = Path(name)
        hint = did_you_mean(path.stem, shipped) if len(path.parts) == 1 else ""
        raise error(
            f"there is no {kind} {name}{hint}; give a YAML file, or one that is shipped: {', '.join(shipped)}"
        ) from None


def load_yaml(
    content: bytes, what: str, error: type[PrivsieveError] = PrivsieveError, *, yes_is_text: bool = False
) -> Any:
    """Load YAML or JSON. `error`, with the problem and its position in one line, if it is neither, a key occurs twice,
    or it is too large.

    what: the file, in words. yes_is_text: yes, no, on and off are texts, as in YAML 1.2, and not truth values.
    """
    try:
        return yaml.load(content, _LoaderOfTexts if yes_is_text else _Loader)
    except _RefusedError as refused:
        raise error(f"{what}: {refused}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: such as a date that does not exist
        mark = getattr(problem, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise error(f"{what} is not valid YAML{where}") from None


class _RefusedError(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """A bounded YAML loader in which a repeated key is an error: plain YAML takes the last one."""

    def __init__(self, stream: bytes):
        super().__init__(stream)
        self._depth = self._num_values = 0
        self._sizes = dict[int, int]()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Add up the values below each node. An alias is counted as the value that it repeats."""
        before = self._num_values
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _RefusedError(f"it has more than {MAX_DEPTH} lists and mappings inside each other")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise _RefusedError("a list or mapping holds itself by an alias")
        self._num_values += self._sizes[id(node)] if is_alias else 1
        if self._num_values > MAX_VALUES:
            raise _RefusedError(f"it has more than {MAX_VALUES:,} values, with all aliases expanded")
        if not is_alias:
            self._sizes[id(node)] = self._num_values - before
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        _refuse_long(node)
        return super().construct_yaml_int(node)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        _refuse_long(node)
        return super().construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                line = key.start_mark.line + 1
                raise _RefusedError(
                    f'the key "{printable(key.value)}" occurs twice, the second time at line {line}; keep one'
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _refuse_long(number: yaml.ScalarNode) -> None:
    if len(number.value) > MAX_NUMBER_CHARACTERS:
        line = number.start_mark.line + 1
        raise _RefusedError(f"the number at line {line} has more than {MAX_NUMBER_CHARACTERS} characters")


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)

# Numbers such as 1e3 are texts to YAML 1.1, but numbers to JSON and to people.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$", re.ASCII), list("-+0123456789")
)


class _LoaderOfTexts(_Loader):
    """A loader with the truth values of YAML 1.2."""


_LoaderOfTexts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_LoaderOfTexts.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
