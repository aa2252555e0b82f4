"""`privsieve plan SOURCE --engine NAME`: what a scan would take, before anything is spent on it.

Nothing is written. The work is in `jobs.plan`.
"""

from collections.abc import Sequence
from dataclasses import asdict

import click

from ingest.errors import number_of
from jobs.console.old_spellings import with_old_spellings
from jobs.console.request_options import headings, takes
from jobs.console.terminal import escaped, write_json
from jobs.plan.arithmetic import Figure, PlanResult
from jobs.plan.run import PlanRequest, run_plan
from jobs.runtime.feedback import on_terminal


@click.command(
    cls=with_old_spellings({"--gpus": "--num-engines", "--sample-size": "--sample"}), headings=headings(PlanRequest)
)
@takes(PlanRequest)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress.")
def plan(request: PlanRequest, output: str, quiet: bool) -> None:
    """Estimate images, hours, cost and storage of a scan of SOURCE from a small random sample. Writes nothing.

    Up to 16 shards are listed, which reads remote tars of small images whole.
    """
    result = run_plan(request, on_terminal(quiet))
    if output == "json":
        write_json(asdict(result), indent=1)
    else:
        _write_text(result)


def _write_text(result: PlanResult) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from jobs.console.tables import console

    stated = f"stated next to the shards, and right for the {result.num_listed_shards} that were listed"
    counted = (
        "counted"
        if result.images_are_counted
        else stated
        if result.images_are_stated
        else f"from {result.num_listed_shards} of the shards, at random"
    )
    formats = ", ".join(f"{name} {count}" for name, count in result.formats.items()) or "none"
    broken = ", ".join(f"{reason} {count}" for reason, count in result.broken.items()) or "none"
    reads = "of remote tars twice: the walk over their headers comes in 4 MiB ranges"
    here = "one thread of this machine"
    steps = "decoding, downscaling and preparing" if result.host_ms else "decoding"
    read_twice = result.read_terabytes.value > result.terabytes.value
    with_engines = f"with {result.gpus} {'GPU or process' if result.gpus == 1 else 'GPUs or processes'}"
    lines = [
        ("shards", f"{result.num_shards:,}", "", "listed"),
        ("images", *_counted(result.images), counted),
        ("size", *_sized(result.terabytes), f"from {number_of(result.num_sampled, 'sampled image')}"),
        *([("read", *_sized(result.read_terabytes), reads)] if read_twice else []),
        ("per image", *_sized(_scaled(result.bytes_per_image, 1e-12)), "mean"),
        ("picture size", *_shown(result.megapixels, ",.3g", " megapixels"), "mean, and 5 to 95 % of the images"),
        ("formats", formats, "", "by content, of the sample"),
        ("broken", f"{result.broken_share:.1%}", "", broken),
        ("decoding", *_shown(result.decode_ms, ",.3g", " ms/image"), here),
        *([("downscaling", *_shown(result.downscale_ms, ",.3g", " ms/image"), here)] if result.downscale_ms else []),
        *([("preparing", *_shown(result.host_ms, ",.3g", " ms/image"), result.host_origin)] if result.host_ms else []),
        ("speed", *_shown(result.images_per_s, ",.4g", " images/s"), result.speed_origin),
        (
            "time",
            *_in_unit(result.hours, TIMES),
            with_engines,
        ),
        *([("cost", *_cost(result.cost), "hours × GPUs × price")] if result.cost else []),
        ("CPUs per GPU", f"{result.cpus_per_gpu:.2g}", "", f"speed × time of {steps}"),
        ("results", _sized(Figure(*[result.result_gigabytes / 1000] * 3))[0], "", "rows of the sample as zstd Parquet"),
    ]
    table = Table(box=box.SIMPLE)
    for head in ("", "estimate", "range 5–95 %", "how"):
        table.add_column(Text(head), justify="right" if head.startswith(("e", "r")) else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(escaped(cell)) for cell in line))
    console().print(table)


SIZES = (("PB", 1e3), ("TB", 1.0), ("GB", 1e-3), ("MB", 1e-6), ("kB", 1e-9), ("bytes", 1e-12))
"""Unit -> terabytes, the largest first."""

TIMES = (("years", 8766.0), ("days", 48.0), ("h", 1.0), ("min", 1 / 60), ("s", 1 / 3600))
"""Unit -> hours from which it is used, the largest first; a day has 24."""

HOURS_OF = {"years": 8766.0, "days": 24.0}

COUNTS = (("billion", 1e9), ("million", 1e6))
"""Used for estimates; what was counted is given in full."""


def _sized(terabytes: Figure) -> tuple[str, str]:
    return _in_unit(terabytes, SIZES)


def _in_unit(figure: Figure, units: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """In the largest unit of which the figure is at least one, the range in the same."""
    unit, size = next((pair for pair in units if figure.value >= pair[1]), units[-1])
    return _shown(_scaled(figure, 1 / HOURS_OF.get(unit, size)), ",.3g", f" {unit}")


def _counted(images: Figure) -> tuple[str, str]:
    if images.low == images.high or images.value < COUNTS[-1][1]:
        return _shown(images, ",.0f")
    return _in_unit(images, COUNTS)


def _scaled(figure: Figure, factor: float) -> Figure:
    return Figure(figure.value * factor, figure.low * factor, figure.high * factor)


def _shown(figure: Figure, form: str, unit: str = "") -> tuple[str, str]:
    low, high, value = (_plain(number, form) for number in (figure.low, figure.high, figure.value))
    return f"{value}{unit}", "" if figure.low == figure.high else f"{low} – {high}"


def _cost(figure: Figure) -> tuple[str, str]:
    """A source of a few pictures costs less than a cent, not nothing."""
    return ("< 0.01", "") if figure.value > 0 and figure.high < 0.01 else _shown(figure, ",.2f")


def _plain(number: float, form: str) -> str:
    """Three digits without an exponent: `1,230`, never `1.23e+03`."""
    return f"{number:,.0f}" if form == ",.3g" and abs(number) >= 999.5 else format(number, form)
