"""Cost of a checked expression per row, judged by its parse tree. Some forms use their arguments several times, and
a few of them nested make a short text cost minutes or gigabytes. A locked connection does not prevent that, and workers
decide shard by shard by a policy that somebody else may have written.

The measure is the number of parts once every copy is counted. It may grow no faster than the text, so that time
and memory per row stay within the length of the expression times the length of the row's values.
Measured with DuckDB 2.0: `split_part` and `nullif` are macros that repeat their arguments, the optimizer writes
BETWEEN and IN out as comparisons, the parser repeats the operand of `CASE x WHEN`, and a list as text escapes what
it holds, which doubles what was escaped before.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_PARTS_PER_CHARACTER = 10
_MAX_CASE_CHARACTERS = 10**6

_COPIES = {"nullif": 2, "split_part": 3, "list_value": 2}
_BETWEEN_COPIES = 4
_LIST_CAST_COPIES = 2

_SIMPLE_CASE = re.compile(r"(?<![^\W\d])case(?![\w$])(?!\s+when(?![\w$]))", re.IGNORECASE)
_WHEN = re.compile(r"(?<![^\W\d])when(?![\w$])", re.IGNORECASE)


def repeats_too_much(text: str) -> bool:
    """Return, before parsing, whether nested `CASE x WHEN …` may fill the memory with copies of x."""
    num_cases = len(_SIMPLE_CASE.findall(text))
    if not num_cases:
        return False
    whens_each = max(1.0, len(_WHEN.findall(text)) / num_cases)
    return math.log(len(text)) + num_cases * math.log(whens_each) > math.log(_MAX_CASE_CHARACTERS)


def is_too_costly(expression: Mapping[str, Any], text: str) -> bool:
    """Return whether it costs too much. expression: a node of DuckDB's parse tree. text: its source."""
    return _num_parts(expression) > MAX_PARTS_PER_CHARACTER * len(text)


def _num_parts(node: Any) -> int:
    """Count the parts. Every child is visited once, so that the time is linear in the size of the tree."""
    if isinstance(node, list):
        return sum(map(_num_parts, node))
    if not isinstance(node, dict):
        return 0
    match node.get("class"):
        case "FUNCTION":
            return 1 + _num_function_parts(node["function_name"].lower(), [a["expression"] for a in node["arguments"]])
        case "OPERATOR" if node["type"] == "COMPARE_IN":
            operand, *entries = map(_num_parts, node["children"])
            return 1 + sum(entries) + len(entries) * operand
        case "BETWEEN":
            copies = _BETWEEN_COPIES
        case "CAST" if node["type_expr"]["type_name"].lower() == "list":
            copies = _LIST_CAST_COPIES
        case _:
            copies = 1
    return ("class" in node) + copies * sum(map(_num_parts, node.values()))


def _num_function_parts(name: str, arguments: Sequence[Mapping[str, Any]]) -> int:
    inner = [_num_parts(argument) for argument in arguments]
    if any(argument["class"] == "LAMBDA" for argument in arguments):
        return math.prod(inner)  # evaluated for every element of the list
    return sum(inner) * (_growth_of_replace(arguments) if name == "replace" else _COPIES.get(name, 1))


def _growth_of_replace(arguments: Sequence[Mapping[str, Any]]) -> int:
    """Return how many times longer the text may become. Search text and replacement are constants (`expressions`)."""
    searched, put = ([len(str(argument["literal"]["text"]).encode()) for argument in arguments[1:3]] + [0, 0])[:2]
    return max(1, math.ceil(put / max(1, searched)))
