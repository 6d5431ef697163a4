"""Functions of JSON texts."""

from __future__ import annotations

from typing import Final

from ottla.rows.types import SqlBaseType
from ottla.sql.casts import TIMESTAMP_TEXT, time_to_string
from ottla.sql.functions.function_registry import Call
from ottla.sql.functions.python import json_strings
from ottla.sql.functions.python_form import by_types, with_nulls
from ottla.sql.functions.scalar import computed_in_python, scalar, signature
from ottla.sql.spark_strings import spark_string

FAMILY: Final = "JSON"
OPTIONS: Final = (
    f"map('ignoreNullFields', 'false', 'timestampFormat', {spark_string(TIMESTAMP_TEXT)})"
)
_VALID: Final = "try_parse_json({0}) IS NOT NULL"


def _to_json(call: Call) -> str:
    """TO_JSON_STRING. Spark can't write single values, so they are put into an array, whose
    brackets are removed."""
    (text,), (type_,) = call.texts, call.types
    if type_ is not None and type_.kind is SqlBaseType.TIME:
        return f"coalesce(concat('\"', {time_to_string(text)}, '\"'), 'null')"
    whole = f"to_json(array({text}), {OPTIONS})"
    return f"regexp_replace({whole}, '(?s)^.(.*).$', '$1')"


def _contains(call: Call) -> str:
    """Compared as JSON: '"3"' is not 3."""
    array, value = call.texts
    wanted = f"to_json(array({value}), {OPTIONS})"
    items = f"transform(try_cast(try_parse_json({array}) AS array<variant>), v -> to_json(v))"
    return f"coalesce(array_contains({items}, substring({wanted}, 2, length({wanted}) - 2)), false)"


JSON_FUNCTIONS: Final = (
    scalar(
        "EXTRACTJSONFIELD",
        FAMILY,
        "The value at a path such as `$.log.cloud` or `$.list[0]` in a JSON text, as text; NULL "
        "if there is none.",
        signature(
            "STRING text, STRING path -> STRING",
            "get_json_object({0}, {1})",
            python=json_strings.extract_json_field,
        ),
    ),
    scalar(
        "IS_JSON_STRING",
        FAMILY,
        "True if the text is valid JSON.",
        signature(
            "STRING text -> BOOLEAN", f"({_VALID})", python=with_nulls(json_strings.is_json_string)
        ),
    ),
    scalar(
        "JSON_ARRAY_CONTAINS",
        FAMILY,
        "True if a JSON array contains the value; false if the text is not an array.",
        *[
            signature(
                f"STRING text, {kind} value -> BOOLEAN",
                _contains,
                python=with_nulls(json_strings.json_array_contains),
            )
            for kind in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING")
        ],
    ),
    scalar(
        "JSON_ARRAY_LENGTH",
        FAMILY,
        "The number of elements of a JSON array; NULL if the text is not an array.",
        signature(
            "STRING text -> INTEGER",
            f"IF({_VALID}, json_array_length({{0}}), NULL)",
            python=json_strings.json_array_length,
        ),
    ),
    computed_in_python(
        "JSON_CONCAT",
        FAMILY,
        "Concatenates JSON texts: objects become one object, in which the last value of a name "
        "wins; others become one array. NULL if a text is not JSON.",
        "STRING... texts -> STRING",
        json_strings.json_concat,
    ),
    scalar(
        "JSON_ITEMS",
        FAMILY,
        "The elements of a JSON array, each as text; NULL if the text is not an array.",
        signature(
            "STRING text -> ARRAY<STRING>",
            "IF(json_array_length({0}) IS NULL, NULL, from_json({0}, 'array<string>'))",
            python=json_strings.json_items,
        ),
    ),
    scalar(
        "JSON_KEYS",
        FAMILY,
        "The names in a JSON object; NULL if the text is not an object.",
        signature(
            "STRING text -> ARRAY<STRING>",
            f"IF({_VALID}, json_object_keys({{0}}), NULL)",
            python=json_strings.json_keys,
        ),
    ),
    scalar(
        "JSON_RECORDS",
        FAMILY,
        "The names and values of a JSON object, values as text; NULL if the text is not an object.",
        signature(
            "STRING text -> MAP<STRING, STRING>",
            f"IF({_VALID} AND json_object_keys({{0}}) IS NOT NULL, "
            "from_json({0}, 'map<string,string>'), NULL)",
            python=json_strings.json_records,
        ),
    ),
    scalar(
        "TO_JSON_STRING",
        FAMILY,
        "Any value as JSON.",
        signature(
            "T value -> STRING",
            _to_json,
            python=by_types(json_strings.to_json_string, takes_nulls=True),
        ),
    ),
)
