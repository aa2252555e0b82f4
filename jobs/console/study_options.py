"""The options of studies that tune: declared here, read by `study_request_from_context()`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jobs.console.option_types import Numbers, WholeRange, YamlFile
from scoring.tuning.targets import PROTOCOLS

if TYPE_CHECKING:
    from jobs.study.points import StudyRequest

Command = TypeVar("Command", bound=Callable[..., Any])

_KEY = __name__


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Stores a given value under its field of `StudyRequest`."""
    if value is not None:
        given: dict[str, Any] = context.meta.setdefault(_KEY, {})
        given[str(parameter.name)] = value


def _option(*names: str, kind: Any = str, help_text: str, is_required: bool = False) -> Callable[[Command], Command]:
    return click.option(*names, type=kind, required=is_required, help=help_text, expose_value=False, callback=_keep)


TARGETS = click.Choice([name for name in PROTOCOLS if name != "dialogue"])

_OPTIONS = (
    click.argument("source", expose_value=False, callback=_keep),
    _option("--labels", help_text="Labels of SOURCE.", is_required=True),
    _option("--evaluation", "evaluation_source", help_text="Pictures to evaluate on.", is_required=True),
    _option("--evaluation-labels", help_text="Labels of the pictures of --evaluation.", is_required=True),
    _option("--target", kind=TARGETS, help_text="What the model learns to answer.", is_required=True),
    _option("--model", help_text="A folder, or a hub name such as owner/name.", is_required=True),
    _option("--recipe", help_text="Hyper-parameters: a shipped name or a YAML file, as in tune.", is_required=True),
    _option("--out", help_text="Folder of the study; continued if it exists.", is_required=True),
    _option("--protocol", help_text="Of the scans, such as binary:p1,first; that of the target by default."),
    _option(
        "--prompt-file",
        kind=YamlFile(),
        help_text="YAML file with wordings that replace the protocol's own, as in scan.",
    ),
    _option("--max-pixels", kind=WholeRange(min=28 * 28), help_text="Width x height of pictures, as in scan."),
    _option("--seeds", kind=Numbers(), help_text="One draw and one tuning each, such as 0,1,2; 0 by default."),
    _option("--micro-batch-size", kind=WholeRange(min=1), help_text="Pictures in the memory at once, as in tune."),
)


def study_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def study_request_from_context() -> "StudyRequest":
    """The options that were given to the running command."""
    from jobs.study.points import StudyRequest

    return StudyRequest(**click.get_current_context().meta[_KEY])
