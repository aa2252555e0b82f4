"""Writes privsieve/commands.pyi: the functions with the parameters of their requests, for type checkers and editors.

python -m tests.privsieve.types
"""

import inspect
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import privsieve
from jobs.console import requests
from privsieve.asking import REQUESTS, fields_of

FILE = Path(privsieve.__file__).with_name("commands.pyi")

OF_PATHS = {requests._url, requests._path_text, requests._local_path, requests._page_path}


def stub() -> str:
    """Return the text of the file."""
    imports = {("collections.abc", "Sequence"), ("contextlib", "AbstractContextManager"), ("typing", "Literal")}
    imports |= {("scoring.assessment", "EngineOptions"), ("privsieve.asking", "Url")}
    functions = list[str]()
    for name, (run, kinds) in sorted(REQUESTS.items()):
        result = get_type_hints(run)["return"]
        is_context = get_origin(result) is not None
        answer = get_args(result)[0] if is_context else result
        imports.add((answer.__module__, answer.__name__))
        shown = f"AbstractContextManager[{answer.__name__}]" if is_context else answer.__name__
        fields = {field.name: field for field in fields_of(kinds)}
        parameters = list(inspect.signature(getattr(privsieve, name)).parameters.values())
        lines = [f"    {_parameter(each, fields[each.name])},\n" for each in parameters]
        first = next((n for n, each in enumerate(parameters) if each.kind is Parameter.KEYWORD_ONLY), len(lines))
        if first < len(lines) and all(each.kind is not Parameter.VAR_POSITIONAL for each in parameters):
            lines.insert(first, "    *,\n")
        functions.append(f"def {name}(\n{''.join(lines)}) -> {shown}: ...\n")
    head = "".join(f"from {module} import {name}\n" for module, name in sorted(imports))
    return f'"""Written by `python -m tests.privsieve.types`."""\n\n{head}\n{"".join(functions)}'


def _parameter(parameter: Parameter, field: requests.Parameter) -> str:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}: {_type(get_args(field.type)[0])}"
    shown = "Url" if _is_path(field.metadata) else _type(field.type)
    if parameter.default is Parameter.empty:
        return f"{parameter.name}: {shown}"
    return f"{parameter.name}: {shown}{' | None' if parameter.default is None else ''} = ..."


def _type(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"Sequence[{_type(get_args(kind)[0])}]"
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]".replace("'", '"')
    metadata = getattr(kind, "__metadata__", ())
    return "Url" if _is_path(metadata) else str(getattr(kind, "__origin__", kind).__name__)


def _is_path(metadata: tuple[Any, ...]) -> bool:
    return any(getattr(each, "func", None) in OF_PATHS for each in metadata)


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
