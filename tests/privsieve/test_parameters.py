"""Parameters of the functions are the options of the commands: both are the fields of the same requests."""

import inspect
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import privsieve
from jobs.console.requests import parameters
from privsieve.asking import REQUESTS
from scoring.assessment import EngineOptions

OWN = {"options"}
"""All options of an engine in one parameter."""

OF_ENGINES = {one.name for one in fields(EngineOptions)}


def test_each_function_that_does_what_a_command_does_takes_the_fields_of_its_requests() -> None:
    assert {"scan", "filter", "report", "plan", "evaluate", "diff", "review", "explain"} <= REQUESTS.keys()


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_parameters_are_the_fields_with_their_defaults(name: str) -> None:
    options = {one.name: one for request in REQUESTS[name] for one in parameters(request)}
    signature = inspect.signature(getattr(privsieve, name))
    has_options = bool(OWN & signature.parameters.keys())
    assert signature.parameters.keys() - OWN == options.keys() - (OF_ENGINES if has_options else set())
    for parameter in signature.parameters.values():
        if parameter.name in OWN or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        is_required = parameter.default is inspect.Parameter.empty
        if is_required and options[parameter.name].default is None:
            continue  # the policy of a filter, which a command can leave out
        default = parameter.default
        assert options[parameter.name].default == (MISSING if is_required else default), parameter.name


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_docstring_of_a_function_says_what_each_parameter_is_for(name: str) -> None:
    function = getattr(privsieve, name)
    for parameter in inspect.signature(function).parameters.keys() - OWN:
        assert f"\n    {parameter}: " in (function.__doc__ or "")
    assert "--" not in (function.__doc__ or "")


def test_a_path_object_is_taken_wherever_a_url_is(tmp_path: Path) -> None:
    with pytest.raises(privsieve.RunError, match="is not a run"):
        privsieve.diff(tmp_path / "a", tmp_path / "b")
    with pytest.raises(privsieve.PrivsieveError, match="run_a=7: give a path or URL"):
        privsieve.diff(7, tmp_path / "b")  # type: ignore[arg-type]
