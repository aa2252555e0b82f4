"""Types of options that click does not have."""

import math
from typing import Any

import click

LARGEST = 2**63 - 1

MAX_SECONDS = 10**7
"""About four months; the clocks of some systems accept no times that are much further away."""


class WholeRange(click.IntRange):
    """A whole number of a range, and of 64 bits; click itself has no limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if abs(number) > LARGEST:
            self.fail(f"{value} is too large; the largest number is {LARGEST}.", param, ctx)
        return number


class NumberOrAuto(click.ParamType[int | None]):
    """A whole number from 1, or `auto` -> None."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == "auto" else WholeRange(min=1).convert(value, param, ctx)


class FiniteRange(click.FloatRange):
    """A number of a range; click itself lets NaN and infinity pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not math.isfinite(float(click.FLOAT.convert(value, param, ctx))):
            self.fail(f"{value} is no finite number.", param, ctx)
        return float(super().convert(value, param, ctx))


class EitherOr(click.Choice[str]):
    """One of two words -> whether it is the second."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, bool) else super().convert(value, param, ctx) == self.choices[1]


class YamlFile(click.ParamType[bytes]):
    """A file of YAML or JSON -> its content. PrivsieveError, with option and file, if it is neither."""

    name = "filename"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        from ingest.storage.given_files import given_content
        from ingest.storage.place import place
        from scoring.yaml_files import load_yaml

        what = f"{'' if param is None else max(param.opts, key=len)} {value}".lstrip()
        content = given_content(place(value), what)
        load_yaml(content, what)  # parsed again later, where its name is not known
        return content


class Numbers(click.ParamType[tuple[int, ...]]):
    """`0,10,50` -> (0, 10, 50)."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f'"{value}" is not a list of whole numbers, such as 0,10,50', param, ctx)


class Names(click.ParamType[tuple[str, ...]]):
    """`en,de` -> ("en", "de")."""

    name = "names"

    def __init__(self, separator: str = ","):
        self._separator = separator

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(part.strip() for part in value.split(self._separator))


class Recall(click.ParamType[float]):
    """`recall=0.95` -> 0.95, above 0 and below 1."""

    name = "recall"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        name, _, share = value.partition("=")
        try:
            number = float(share)
        except ValueError:
            number = math.nan
        if name.strip() != "recall" or not 0 < number < 1:
            self.fail(
                f'"{value}" is not recall=SHARE with a share above 0 and below 1, such as recall=0.95', param, ctx
            )
        return number
