"""JSON as text."""

from __future__ import annotations

from typing import Final

from ottla.rows.types import Kind
from ottla.sql.casts import TIMESTAMP_TEXT, time_to_string
from ottla.sql.functions.declare import computed_in_python, scalar, signature
from ottla.sql.functions.python import json_text as python
from ottla.sql.functions.python_form import by_types, with_nulls
from ottla.sql.functions.table import Call
from ottla.sql.spark_text import string

FAMILY: Final = "JSON"
OPTIONS: Final = f"map('ignoreNullFields', 'false', 'timestampFormat', {string(TIMESTAMP_TEXT)})"
_VALID: Final = "try_parse_json({0}) IS NOT NULL"


def _to_json(call: Call) -> str:
    """Spark writes no bare values: they go into an array, and its brackets away."""
    (text,), (type_,) = call.texts, call.types
    if type_ is not None and type_.kind is Kind.TIME:
        return f"coalesce(concat('\"', {time_to_string(text)}, '\"'), 'null')"
    whole = f"to_json(array({text}), {OPTIONS})"
    return f"regexp_replace({whole}, '(?s)^.(.*).$', '$1')"


def _contains(call: Call) -> str:
    """Compared as JSON: '"3"' is not 3."""
    array, value = call.texts
    wanted = f"to_json(array({value}), {OPTIONS})"
    items = f"transform(try_cast(try_parse_json({array}) AS array<variant>), v -> to_json(v))"
    return f"coalesce(array_contains({items}, substring({wanted}, 2, length({wanted}) - 2)), false)"


JSON: Final = (
    scalar(
        "EXTRACTJSONFIELD",
        FAMILY,
        "What a path such as `$.log.cloud` or `$.list[0]` leads to in a JSON text, as text; NULL "
        "where it leads nowhere.",
        signature(
            "STRING text, STRING path -> STRING",
            "get_json_object({0}, {1})",
            python=python.field,
        ),
    ),
    scalar(
        "IS_JSON_STRING",
        FAMILY,
        "Whether the text is JSON.",
        signature("STRING text -> BOOLEAN", f"({_VALID})", python=with_nulls(python.is_json)),
    ),
    scalar(
        "JSON_ARRAY_CONTAINS",
        FAMILY,
        "Whether a JSON array has that value in it; false for what is no array.",
        *[
            signature(
                f"STRING text, {each} value -> BOOLEAN",
                _contains,
                python=with_nulls(python.contains),
            )
            for each in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING")
        ],
    ),
    scalar(
        "JSON_ARRAY_LENGTH",
        FAMILY,
        "How many elements a JSON array has; NULL for what is none.",
        signature(
            "STRING text -> INTEGER",
            f"IF({_VALID}, json_array_length({{0}}), NULL)",
            python=python.length,
        ),
    ),
    computed_in_python(
        "JSON_CONCAT",
        FAMILY,
        "JSON texts put together: of objects one object, where the last of a name wins; else one "
        "array of all. NULL where one is no JSON.",
        "STRING... texts -> STRING",
        python.concatenated,
    ),
    scalar(
        "JSON_ITEMS",
        FAMILY,
        "The elements of a JSON array, each as text; NULL for what is no array.",
        signature(
            "STRING text -> ARRAY<STRING>",
            "IF(json_array_length({0}) IS NULL, NULL, from_json({0}, 'array<string>'))",
            python=python.items,
        ),
    ),
    scalar(
        "JSON_KEYS",
        FAMILY,
        "The names in a JSON object; NULL for what is none.",
        signature(
            "STRING text -> ARRAY<STRING>",
            f"IF({_VALID}, json_object_keys({{0}}), NULL)",
            python=python.keys,
        ),
    ),
    scalar(
        "JSON_RECORDS",
        FAMILY,
        "The names and values of a JSON object, the values as text; NULL for what is none.",
        signature(
            "STRING text -> MAP<STRING, STRING>",
            f"IF({_VALID} AND json_object_keys({{0}}) IS NOT NULL, "
            "from_json({0}, 'map<string,string>'), NULL)",
            python=python.records,
        ),
    ),
    scalar(
        "TO_JSON_STRING",
        FAMILY,
        "Any value as JSON.",
        signature("T value -> STRING", _to_json, python=by_types(python.to_json, takes_nulls=True)),
    ),
)
