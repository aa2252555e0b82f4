"""SQL that people write over a row: what is allowed, and that none of it can grow without bound."""

import duckdb
import pyarrow as pa
import pytest

from ingest.errors import QueryError
from scoring.sql.expressions import FUNCTIONS, boolean_expression, value_expression
from scoring.table import SCHEMA

LISTS = SCHEMA.append(pa.field("unseen", pa.list_(pa.string()))).append(pa.field("unseen_bytes", pa.int64()))


@pytest.mark.parametrize(
    "condition",
    [
        "gov_ids >= 0.5",
        "level_high IN (1, 2) AND (gov_ids IS NULL OR NOT financial_data = 1)",
        "len(unseen) > 0",
        "list_contains(unseen, 'frames')",
        "list_has_any(unseen, ['frames', 'text'])",
        "unseen_bytes > 0",
        "score BETWEEN 0.2 AND 0.5",
        "split_part(category, '/', 1) = 'office'",
        "nullif(split_part(split_part(category, '/', 1), '_', 2), '') IS NULL",
        "replace(lower(category), '_', ' ') LIKE 'a %'",
        "regexp_matches(key, '^[0-9]{4}_')",
        "CASE level WHEN 1 THEN true WHEN 2 THEN true ELSE false END",
        "key::INTEGER > 3 OR TRY_CAST(key AS DOUBLE) > 0.5 OR key::DATE > '2026-01-01'",
        "len(list_filter(boxes, lambda b: b.attribute = 'biometrics')) > 3",
        "list_max(list_transform(boxes, lambda b: b.confidence)) > 0.9",
        "boxes[1].attribute = 'biometrics'",
        "key IN (" + ", ".join(f"'k{i}'" for i in range(2_000)) + ")",
        " OR ".join(f"key = 'k{i}'" for i in range(100)),
    ],
)
def test_conditions_that_a_policy_may_need_are_allowed(condition: str) -> None:
    assert boolean_expression(condition, LISTS)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("repeat(key, 100)", 'the function "repeat" is not allowed (did you mean "replace"?) at character 1: repeat('),
        ("concat('a', lpad(key, 100, 'x'))", 'the function "lpad" is not allowed at character 13: '),
        ("string_agg(key, '')", 'the function "string_agg" is not allowed'),
        ("list_transfrom(boxes, lambda b: 1)", 'the function "list_transfrom" is not allowed (did you mean "list_tr'),
        ("json_execute_serialized_sql('')", 'the function "json_execute_serialized_sql" is not allowed'),
        ("read_text('run.json')", 'the function "read_text" is not allowed'),
        ("concat(DISTINCT key)", 'the function "concat" takes no FILTER, DISTINCT or ORDER BY here'),
        ("replace(key, 'a', category)", "replace needs texts in quotes as its second and third argument"),
        ("key::BLOB::BIT::VARCHAR", "a cast to BLOB is not allowed in an expression over the row"),
        ("NULL::INTEGER[100000]", "a cast to array is not allowed"),
        ("key::MAP(VARCHAR, VARCHAR)", "a cast to MAP is not allowed"),
        (
            "list_transform(boxes, lambda b: list_transform(boxes, lambda c: b.kind || c.kind))",
            "a lambda inside a lambda is not allowed at character 55",
        ),
        ("upper(key) COLLATE nocase", "collate is not allowed"),
        ("COLUMNS(*)", "star is not allowed"),
        ("rank() OVER ()", "window is not allowed"),
    ],
)
def test_what_is_not_allowed_is_named(expression: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        value_expression(expression, LISTS)
    assert str(caught.value).lower().startswith(message.lower())
    assert "\n" not in str(caught.value)


def test_a_function_that_is_not_allowed_is_answered_with_those_that_are() -> None:
    with pytest.raises(QueryError) as caught:
        value_expression("rpad(key, 9, 'x')", LISTS)
    assert str(caught.value).endswith(f"; functions that are allowed: {', '.join(sorted(FUNCTIONS))}")


def nested(form: str, depth: int) -> str:
    text = "key"
    for _ in range(depth):
        text = form.replace("{}", text)
    return text


GROWING = [
    "replace({}, 'a', 'aa')",
    "split_part({}, '/', 1)",
    "nullif({}, '')",
    "[{}]::VARCHAR",
    "TRY_CAST(concat('[', {}, ']') AS VARCHAR[])::VARCHAR",
    "list_transform([{}], lambda x: [x, x])::VARCHAR",
    "CASE WHEN {} BETWEEN 'a' AND 'b' THEN 'a' ELSE 'b' END",
    "CASE WHEN {} IN ('a', 'b', 'c') THEN 'a' ELSE 'b' END",
    "CASE {} WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'd' ELSE 'a' END",
]


@pytest.mark.parametrize("form", GROWING)
def test_forms_that_copy_their_values_are_allowed_once_and_refused_deep_inside_each_other(form: str) -> None:
    assert value_expression(nested(form, 2), LISTS)
    for depth in (25, 60):
        with pytest.raises(QueryError, match=r"too many times over|repeats x for every WHEN|nested too deeply"):
            value_expression(nested(form, depth), LISTS)


@pytest.mark.parametrize("form", GROWING)
def test_what_is_allowed_makes_texts_no_longer_than_it_is_itself_times_a_constant(form: str) -> None:
    rows = pa.table({"key": ["a'bc" * 25]}, schema=pa.schema([("key", pa.string())]))
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        for depth in range(1, 25):
            try:
                sql = value_expression(nested(form, depth), rows.schema)
            except QueryError:
                break
            [(length,)] = connection.execute(f"SELECT strlen({sql}) FROM rows").fetchall()
            assert length is None or length <= 100 * 10 * len(nested(form, depth))
        else:
            pytest.fail("never refused")


@pytest.mark.parametrize("text", ["level +", "(level", "level)", "level < 3)", "level = 1 AND"])
def test_an_error_at_the_end_does_not_point_at_a_bracket_of_ours(text: str) -> None:
    with pytest.raises(QueryError) as error:
        value_expression(text, SCHEMA)
    what = "syntax error: something is missing at the end, or a bracket is closed that was not opened"
    assert str(error.value) == f"{what}: {text}"


def test_several_values_with_commas_are_called_that() -> None:
    with pytest.raises(QueryError) as error:
        value_expression("category, level", SCHEMA)
    assert str(error.value) == (
        "give one value, not several with commas; put them together, such as concat(a, ' / ', b): category, level"
    )
