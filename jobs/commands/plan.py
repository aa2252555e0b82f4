"""`privsieve plan SOURCE --run RUN`: begins a scan, and says what the rest of it will take."""

from collections.abc import Iterator, Sequence
from shlex import quote

import click

from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_line, write_table, wrote_json
from jobs.planning.planning import ALL_SCANNED, PlanRequest, PlanResult, run_plan
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from jobs.scanning.request import ScanRequest, ScanResources
from reports.words import percent, spread

SIZES = (("TB", 1e3), ("GB", 1.0), ("MB", 1e-3), ("kB", 1e-6))
"""Unit -> gigabytes, the largest first."""

TIMES = (("years", 8766.0), ("days", 24.0), ("h", 1.0), ("min", 1 / 60), ("s", 1 / 3600))
"""Unit -> hours, the largest first."""


@click.command()
@takes(ScanRequest, ScanResources, PlanRequest)
@TEXT_OR_JSON
@QUIET
def plan(request: ScanRequest, resources: ScanResources, plan: PlanRequest, output: str, quiet: bool) -> None:
    """Scan SOURCE into RUN for half a minute, and say how long all of it takes and what it costs.

    The options are those of scan, which continues the run. Up to 16 shards are listed, which reads remote tars of small
    images whole.
    """
    with command_session():
        result = run_plan(request, resources, plan, on_terminal(quiet))
    if wrote_json(result, output):
        return
    write_table(["", "estimate", "how"], list(_lines(result)), {1})
    if not quiet:
        run = quote(request.run)
        is_done = result.images_origin == ALL_SCANNED
        todo = f"privsieve report {run}" if is_done else f"the same with scan instead of plan continues {run}"
        write_line(f"next: {todo}", to_stderr=True)


def _lines(result: PlanResult) -> Iterator[tuple[str, str, str]]:
    yield "shards", f"{result.num_shards:,}", "listed"
    yield "images", f"{result.num_images:,}", result.images_origin
    if result.quarantined_share is not None:
        reach = result.quarantined_range
        of_all = "" if reach is None else f", {spread(*reach)} of all (95 %)"
        yield "scanned", f"{result.num_done:,}", f"{percent(result.quarantined_share)} of them quarantined{of_all}"
    yield "speed", f"{_digits(result.images_per_s)} images/s", result.speed_origin
    if result.hours is None:
        yield "time", "unknown", "no image was scanned"
    else:
        yield "time", in_unit(result.hours, TIMES), "of the whole scan"
    if result.hours_left is not None and result.num_done:
        yield "left", in_unit(result.hours_left, TIMES), "of it"
    if result.cost is not None:  # a source of a few pictures costs less than a cent, not nothing
        yield "cost", "< 0.01" if 0 < result.cost < 0.01 else f"{result.cost:,.2f}", "hours × price"
    if result.result_gigabytes is not None:
        yield "results", in_unit(result.result_gigabytes, SIZES), "from rows of the run"


def in_unit(number: float, units: Sequence[tuple[str, float]]) -> str:
    """Return the number in the largest unit of which it is at least one."""
    unit, size = next((pair for pair in units if number >= pair[1]), units[-1])
    return f"{_digits(number / size)} {unit}"


def _digits(number: float) -> str:
    """Return three digits without an exponent: `1,230`, never `1.23e+03`."""
    return f"{number:,.0f}" if number >= 999.5 else f"{number:,.3g}"
