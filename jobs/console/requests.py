"""Requests: what a command, or the function of `privsieve` of the same name, is asked to do.

A request is a frozen dataclass that is checked when it is made. Each field is written once: its type, default and
docstring are also those of the option on the command line (`jobs.console.request_options`) and of the parameter in
Python (`privsieve.asking`). A field has the name of its option, unless `Option` gives another one.
"""

import ast
import dataclasses
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import PydanticCustomError

from ingest.errors import PrivsieveError, StorageError
from ingest.storage.place import place
from ingest.storage.web import named

STRICT = ConfigDict(strict=True, extra="forbid")
"""For pydantic's dataclasses: refuse a value of another type instead of converting it, and refuse unknown names."""

R = TypeVar("R")


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def checked_request(cls: type[R]) -> type[R]:
    """Decorate a request: it becomes a frozen dataclass of which each field is checked when it is made."""
    return cast(type[R], checked_dataclass(frozen=True, config=STRICT)(cls))


@dataclass(frozen=True)
class Option:
    """How a field is spelled on the command line, if that does not follow from the field. Metadata of `Annotated`. If a
    field has several, each attribute is taken from the first that sets it."""

    name: str | None = None
    """Such as `--n`; by default the field's name. `--blur/--clear` for a flag with an opposite."""

    argument: str | None = None
    """The field is an argument, and help shows this for it."""

    metavar: str | None = None

    heading: str | None = None
    """`--help` lists the option below it."""

    kind: Any = None
    """A type of click, if the field's own type has none."""

    default: Any = None
    """The default that click gets, if the command line spells it in another way."""

    offers: Sequence[str] = ()
    """What the shell completes; any other value is accepted, too."""

    fill: str | None = None
    """Takes the place of `{}` in the docstring."""

    if_blank: str | None = None
    """Refuses an empty value with this advice."""

    variable: str | None = None
    """One environment variable that sets the option for all commands."""


@dataclass(frozen=True)
class Below:
    """Metadata of a field that is a group of options: how its own fields are spelled."""

    spellings: Mapping[str, Option] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Parameter:
    """A field of a request, as its option and its parameter need it."""

    name: str
    type: Any
    """Without None and without metadata."""

    metadata: tuple[Any, ...]
    default: Any
    """`dataclasses.MISSING` if there is none."""

    text: str
    """The docstring of the field, on one line."""

    def spelled(self, what: str) -> Any:
        """Return an attribute of `Option`; None if the field sets none."""
        options = [item for item in self.metadata if isinstance(item, Option)]
        return next((value for option in options if (value := getattr(option, what)) not in (None, ())), None)


def _url(value: Any) -> Any:
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise PydanticCustomError("url", "give a path or URL")
    return named(os.fspath(value))


def _path_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _listed(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise PydanticCustomError("list", "give a list")
    return tuple(value)


def _local_path(value: Any) -> Path:
    return Path(_url(value)).expanduser()


def _page_path(value: Any, field_: ValidationInfo) -> Path:
    from reports.pages import check_path

    path = _local_path(value)
    check_path(path, f"--{(field_.field_name or '').replace('_', '-')}")
    return path


def _gpus(number: float) -> float:
    if number > 1 and not number.is_integer():
        raise PrivsieveError(f"--engine-gpus {number:g}: give a part of one GPU, or a whole number of GPUs")
    return number


Count = Annotated[int, Field(ge=1, lt=2**63)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
EngineCpus = Annotated[float, Field(ge=0.5, allow_inf_nan=False)]
EngineGpus = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_gpus)]
Name = InstanceOf[str]
"""A text as the system gives it. A plain `str` refuses lone surrogates, which replace bytes that are not UTF-8."""

PathOrUrl = Annotated[Name, BeforeValidator(_path_text)]
"""A path, or a URL as it is written: its query says which picture is meant, and is no credential."""

Url = Annotated[InstanceOf[str], BeforeValidator(_url)]
"""A path of this machine or an fsspec URL, as it may be written and printed (`ingest.storage.web`)."""

LocalFile = Annotated[InstanceOf[Path], BeforeValidator(_local_path)]
"""A file of this machine."""

PagePath = Annotated[InstanceOf[Path], BeforeValidator(_page_path)]
"""A file of this machine to write a page to. StorageError if it cannot be one."""

RunUrl = Annotated[Url, Option(argument="RUN")]

FROM_LIST = BeforeValidator(_listed)
"""In the metadata of a tuple: a list is taken, too."""

Urls = Annotated[tuple[Url, ...], FROM_LIST]

HashListUrl = Annotated[Url | None, Option(metavar="FILE", variable="PRIVSIEVE_HASH_LIST")]


@contextmanager
def refused_in_one_line() -> Iterator[None]:
    """Raise PrivsieveError with name and value of the first wrong field."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise PrivsieveError(f"{first['loc'][0]}={first['input']!r:.80}: {message}") from None


def asked(request: type[R], given: Mapping[str, Any]) -> R:
    """Make a request of the values given by name; other names are ignored. PrivsieveError in one line."""
    with refused_in_one_line():
        return _made(request, given)


def _made(request: type[R], given: Mapping[str, Any]) -> R:
    values = dict[str, Any]()
    kinds: type = request  # for mypy: type[R] is not Hashable, which a cached function takes
    for name, (kind, _) in _types(kinds).items():
        if not dataclasses.is_dataclass(kind):
            values |= {name: given[name]} if name in given else {}
        elif given.get(name) is not None:
            values[name] = given[name]
        elif name not in given:
            values[name] = _made(kind, given)  # type: ignore[arg-type]  # a class, not an instance
    return request(**values)


@cache
def parameters(request: type) -> tuple[Parameter, ...]:
    """Return the fields of a request. A field that is a group of options is replaced by the fields of that group."""
    result = list[Parameter]()
    texts = docstrings(request)
    for field_ in dataclasses.fields(request):
        kind, metadata = _types(request)[field_.name]
        if dataclasses.is_dataclass(kind):
            below = next((each for each in metadata if isinstance(each, Below)), Below())
            shared = tuple(each for each in metadata if isinstance(each, Option))
            for each in parameters(kind):  # type: ignore[arg-type]  # a class, not an instance
                if each.name not in below.left_out:
                    spelling = (below.spellings[each.name],) if each.name in below.spellings else ()
                    result.append(dataclasses.replace(each, metadata=(*spelling, *each.metadata, *shared)))
            continue
        made = field_.default_factory() if field_.default_factory is not MISSING else field_.default
        result.append(Parameter(field_.name, kind, metadata, made, texts.get(field_.name, "")))
    return tuple(result)


def text_of(parameter: Parameter) -> str:
    """Return what the option or parameter is for."""
    return parameter.text.replace("{}", parameter.spelled("fill") or "{}")


@cache
def _types(request: type) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return field -> its type without None, and what `Annotated` says about it, the outermost first."""
    hints = get_type_hints(request, include_extras=True)
    return {field_.name: _bare(hints[field_.name]) for field_ in dataclasses.fields(request)}


def _bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        kind, inner = _bare(hint.__origin__)
        return kind, (*reversed(hint.__metadata__), *inner)
    if get_origin(hint) in (Union, UnionType):
        others = [kind for kind in get_args(hint) if kind is not NoneType]
        return _bare(others[0]) if len(others) == 1 else (hint, ())
    return hint, ()


@cache
def docstrings(request: type) -> dict[str, str]:
    """Return field -> the docstring below it."""
    tree = ast.parse(Path(inspect.getfile(request)).read_text(encoding="utf-8"))
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    texts = dict[str, str]()
    for before, after in pairwise(next(class_.body for class_ in classes if class_.name == request.__name__)):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[ast.unparse(before.target)] = " ".join(str(after.value.value).split())
    return texts


def refuse_existing(*urls: str) -> None:
    """Raise StorageError that names the first file that exists already. Call this before any work is done."""
    for url in urls:
        if place(url).exists():
            raise StorageError(f"{url} already exists; name another --out, or remove it")
