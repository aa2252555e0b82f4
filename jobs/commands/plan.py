"""`privsieve plan SOURCE --run RUN`: begins a scan, and says what the rest of it will take."""

from collections.abc import Iterator, Sequence
from shlex import quote

import click

from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_line, write_table, wrote_json
from jobs.planning.planning import ALL_SCANNED, Figure, PlanRequest, PlanResult, run_plan
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
    write_table(["", "estimate", "range 5–95 %", "how"], list(_lines(result)), {1, 2})
    if not quiet:
        run = quote(request.run)
        is_done = result.images_origin == ALL_SCANNED
        todo = f"privsieve report {run}" if is_done else f"the same with scan instead of plan continues {run}"
        write_line(f"next: {todo}", to_stderr=True)


def _lines(result: PlanResult) -> Iterator[tuple[str, str, str, str]]:
    yield "shards", f"{result.num_shards:,}", "", "listed"
    yield "images", *shown(result.images, ",.0f"), result.images_origin
    if result.quarantined_share is not None:
        reach = result.quarantined_range
        of_all = "" if reach is None else f", {spread(*reach)} of all (95 %)"
        of_them = f"{percent(result.quarantined_share)} of them quarantined{of_all}"
        yield "scanned", f"{result.num_done:,}", "", of_them
    yield "speed", *shown(result.images_per_s, ",.3g", " images/s"), result.speed_origin
    if result.hours is None:
        yield "time", "unknown", "", "no image was scanned"
    else:
        yield "time", *in_unit(result.hours, TIMES), "of the whole scan"
    if result.hours_left is not None and result.num_done:
        yield "left", *in_unit(result.hours_left, TIMES), "of it"
    if result.cost is not None:
        yield "cost", *_cost(result.cost), "hours × price"
    if result.result_gigabytes is not None:
        yield "results", in_unit(Figure(result.result_gigabytes), SIZES)[0], "", "from rows of the run"


def in_unit(figure: Figure, units: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Return the figure in the largest unit of which it is at least one, and the range in the same unit."""
    unit, size = next((pair for pair in units if figure.value >= pair[1]), units[-1])
    return shown(figure.times(1 / size), ",.3g", f" {unit}")


def shown(figure: Figure, form: str, unit: str = "") -> tuple[str, str]:
    low, high, value = (_plain(number, form) for number in (figure.low, figure.high, figure.value))
    return f"{value}{unit}", "" if figure.low == figure.high else f"{low} – {high}"


def _plain(number: float, form: str) -> str:
    """Return three digits without an exponent: `1,230`, never `1.23e+03`."""
    return f"{number:,.0f}" if form == ",.3g" and abs(number) >= 999.5 else format(number, form)


def _cost(figure: Figure) -> tuple[str, str]:
    """Return cost and range. A source of a few pictures costs less than a cent, not nothing."""
    return ("< 0.01", "") if figure.value > 0 and figure.high < 0.01 else shown(figure, ",.2f")
