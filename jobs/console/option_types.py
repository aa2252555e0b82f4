"""Types of options that click does not have."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A number of a range; click itself lets NaN and infinity pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number
