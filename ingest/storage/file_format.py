"""The number `format` in run.json, release.json, screen.json and in the footers of labels and audits. The promise from
1.0 on: what 1.x wrote, 1.y reads. So a change that readers of this number cannot take raises it."""

from typing import Literal

from ingest.errors import PrivsieveError

Format = Literal[1]
FORMAT: Format = 1


def refuse_other_format(fields: object, file: str, remedy: str, kind: type[PrivsieveError]) -> None:
    """Raise `kind` in one line if these fields of a JSON object have another number than `FORMAT`, or none.

    file: whose format it is, as the message names it. remedy: what to do, unless the version that wrote it is at hand.
    ValueError if the fields are something else than those of a JSON object.
    """
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    number = fields.get("format")
    if number == FORMAT and type(number) is int:
        return
    is_shown = type(number) is int and 0 <= number < 10**6
    has = f"the format {number}" if is_shown else "no format number" if number is None else "a format that is no number"
    wanted = f"this privsieve reads format {FORMAT}"
    raise kind(f"{file} has {has}, and {wanted}; use the version that wrote it, or {remedy}")
