"""Parameters of the functions are the options of the commands: both are the fields of the same requests."""

import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import privsieve
from privsieve.asking import REQUESTS, fields_of
from tests.privsieve.types import FILE, stub

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
ROOMS = {"ingest", "scoring", "reports", "jobs", "privsieve"}


def test_a_type_checker_sees_the_parameters_of_today() -> None:
    assert FILE.read_text(encoding="utf-8") == stub(), "python -m tests.privsieve.types"


def test_the_values_that_a_function_needs_come_in_the_order_of_the_command() -> None:
    assert str(inspect.signature(privsieve.diff)) == "(run_a, run_b, *, by='category', html=None, hash_list=None)"
    assert str(inspect.signature(privsieve.filter)).startswith("(run, policy, out, *, resume=False, ")
    assert str(inspect.signature(privsieve.scan)).startswith("(source, run, *, ")
    assert str(inspect.signature(privsieve.consensus)).startswith("(*inputs, out, method=None, ")
    assert "options" in inspect.signature(privsieve.scan).parameters
    assert "model" not in inspect.signature(privsieve.scan).parameters


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_docstring_of_a_function_says_what_each_parameter_is_for(name: str) -> None:
    function = getattr(privsieve, name)
    assert function.__name__ == name
    for field in fields_of(REQUESTS[name][1]):
        assert f"\n    {field.name}: " in function.__doc__
    assert "--" not in function.__doc__.partition("Parameters:")[2]


def test_a_path_object_is_taken_wherever_a_url_is(tmp_path: Path) -> None:
    with pytest.raises(privsieve.RunError, match="is not a run"):
        privsieve.diff(tmp_path / "a", tmp_path / "b")
    with pytest.raises(privsieve.PrivsieveError, match="run_a=7: give a path or URL"):
        privsieve.diff(7, tmp_path / "b")  # type: ignore[arg-type]


def test_an_unknown_or_missing_parameter_is_a_type_error_as_of_any_function() -> None:
    with pytest.raises(TypeError, match=r"^diff\(\) missing a required argument: 'run_b'"):
        privsieve.diff("a")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^diff\(\) got an unexpected keyword argument 'hmtl'"):
        privsieve.diff("a", "b", hmtl="page.html")  # type: ignore[call-arg]


def members(kind: Any) -> set[str]:
    """The names that a class has, and those of the classes of privsieve that its fields are of."""
    names, waiting, seen = set[str](), [kind], set[Any]()
    while waiting:
        each = waiting.pop()
        waiting += [inner for inner in get_args(each) if inner not in seen]
        if isinstance(each, type) and each.__module__.split(".")[0] in ROOMS and each not in seen:
            seen.add(each)
            fields = get_type_hints(each)
            names |= {*fields, *dir(each)}
            waiting += fields.values()
    return names


def test_the_page_names_what_results_have() -> None:
    functions, methods = (
        re.findall(r"^\| (`.+?) \| (.+?) \|", part.partition("\n## ")[0], re.MULTILINE)
        for part in re.split(r"\n## (?:Functions|An opened run)\n", PAGE.read_text(encoding="utf-8"))[1:]
    )
    assert len(functions) > 15
    for called, answer in functions:
        names = re.findall(r"`(\w+)", called)
        works = [REQUESTS[name][0] if name in REQUESTS else getattr(privsieve, name) for name in names]
        known = set[str]().union(*(members(get_type_hints(work)["return"]) for work in works))
        fields = re.findall(r"`([a-z][\w.]*)(?:\(\))?`", answer)
        assert {part for field in fields for part in field.split(".")} - {"with"} <= known, names
    for called, answer in methods:
        for name in re.findall(r"`(\w+)", called):
            assert name in members(privsieve.OpenRun)
            if name == "rates":
                assert set(re.findall(r"`([a-z_]+)`", answer)) <= members(privsieve.Rate)
