"""How the options of engines are spelled on every command that uses one; they are the fields of `EngineOptions`. Apart
from `requests`: commands such as `sql` start faster without engines and protocols."""

from typing import Annotated

from jobs.console.requests import Below, Option
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.engines import ENGINES
from scoring.protocols import PROTOCOLS

HEADING = Option(heading="Engine")

EngineName = Annotated[str, Option(offers=tuple(ENGINES), fill=", ".join(ENGINES)), HEADING]
"""`{}` in the docstring of such a field is replaced by the names."""

ChosenOptions = Annotated[
    EngineOptions,
    # A blank value mostly comes from a shell variable that is not set; it would mean the default.
    Option(if_blank="give a value, or leave the option out"),
    HEADING,
    Below(
        {
            "protocol": Option(offers=tuple(PROTOCOLS), fill=", ".join(PROTOCOLS)),
            "vllm_option": Option(metavar="NAME=VALUE"),
        },
        left_out=SET_BY_SCANS,
    ),
]
