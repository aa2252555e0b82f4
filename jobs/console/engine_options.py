"""The options of engines, the same on every command that uses one: declared here, read by
`engine_options_from_context()`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from jobs.console.completion import Complete, offering
from jobs.console.option_types import WholeRange, YamlFile
from scoring.assessment import EngineOptions
from scoring.engines import DEFAULT, ENGINES
from scoring.protocols import PROTOCOLS

Command = TypeVar("Command", bound=Callable[..., Any])

_KEY = __name__


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Stores a given value under its field of `EngineOptions`.

    A blank value is refused: it mostly comes from a shell variable that is not set, and would mean the default.
    """
    if isinstance(value, str) and not value.strip():
        raise click.BadParameter("it is empty; give a value, or leave the option out", context, parameter)
    if value not in (None, False, ()):
        given: dict[str, Any] = context.meta.setdefault(_KEY, {})
        given[str(parameter.name)] = value


def _option(flag: str, kind: Any, help_text: str, complete: Complete | None = None) -> Callable[[Command], Command]:
    return click.option(flag, type=kind, help=help_text, expose_value=False, callback=_keep, shell_complete=complete)


_OPTIONS = (
    _option("--model", str, "Model folder, hub name or URL (vllm, transformers); name at the endpoint (openai)."),
    _option("--adapter", str, "Folder, hub name or URL of a LoRA adapter for the model."),
    _option(
        "--protocol", str, f"What is asked: {', '.join(PROTOCOLS)}; see privsieve help protocols.", offering(PROTOCOLS)
    ),
    _option("--prompt-file", YamlFile(), "YAML file with wordings that replace the protocol's own."),
    _option("--thresholds", YamlFile(), "YAML file: attribute -> probability from which it is present."),
    click.option("--keep-rationale", is_flag=True, expose_value=False, callback=_keep, help="Keep the model's words."),
    _option("--max-pixels", WholeRange(min=28 * 28), "Pictures are downscaled to so many pixels for the model."),
    _option("--dtype", str, "float32, bfloat16 or float16; default as the model is stored."),
    _option("--batch-size", WholeRange(min=1), "Pictures in one pass of the model."),
    _option("--tensor-parallel-size", WholeRange(min=1), "GPUs that share one model."),
    click.option(
        "--vllm-option",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_keep,
        help="Setting of vLLM, such as max_num_seqs=512; can be given several times; see privsieve help engines.",
    ),
    _option("--endpoint", str, "Base URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1 (openai)."),
    _option("--concurrency", WholeRange(1, 256), "Requests under way at once, of one engine (openai)."),
)

ENGINE_HEADING = {
    "Engine": (
        *("--engine", "--thresholds", "--keep-rationale", "--model", "--adapter", "--protocol", "--prompt-file"),
        *("--max-pixels", "--dtype", "--batch-size", "--tensor-parallel-size", "--vllm-option"),
        *("--endpoint", "--concurrency"),
    )
}
"""For `jobs.console.command.Command`."""


def engine_option(help_text: str) -> Callable[[Command], Command]:
    """`--engine`. help_text: what the engine is for, without the names of engines."""
    return click.option(
        "--engine",
        default=DEFAULT,
        show_default=True,
        shell_complete=offering(ENGINES),
        help=f"{help_text}: {', '.join(ENGINES)}",
    )


def engine_options(command: Command) -> Command:
    """Adds the options to a click command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def engine_options_from_context() -> EngineOptions:
    """The options of the engine that were given to the running command."""
    return EngineOptions(**click.get_current_context().meta.get(_KEY, {}))
