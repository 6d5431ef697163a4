"""Functions of regular expressions; both ksqlDB and Spark use Java's syntax."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.sql.functions.function_registry import Call
from ottla.sql.functions.python import regular_expressions
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Regular expressions"


def _groups(pattern: Any) -> int | None:
    """The number of groups in a pattern; None if Python can't parse it."""
    try:
        return re.compile(pattern).groups if isinstance(pattern, str) else None
    except re.error:
        return None


def _extracted(call: Call, text: str) -> str:
    """Guard the group: for one that the pattern does not have Spark fails, and ksqlDB gives
    NULL."""
    group = call.constants[2]
    known = _groups(call.constants[0])
    if isinstance(group, int) and known is not None and not 0 <= group <= known:
        return f"CAST(NULL AS {call.returns.spark})"
    return call.filled(text)


REGULAR_EXPRESSIONS: Final = (
    scalar(
        "REGEXP_EXTRACT",
        FAMILY,
        "The first match in the text, or the part that a group matched; NULL if there is none.",
        signature(
            "STRING pattern, STRING text -> STRING",
            "regexp_substr({1}, {0})",
            python=regular_expressions.regexp_extract,
        ),
        signature(
            "STRING pattern, STRING text, INTEGER group -> STRING",
            lambda call: _extracted(
                call, "CASE WHEN regexp_like({1}, {0}) THEN regexp_extract({1}, {0}, {2}) END"
            ),
            python=regular_expressions.regexp_extract,
        ),
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        FAMILY,
        "All matches in the text, or the parts that a group matched.",
        signature(
            "STRING pattern, STRING text -> ARRAY<STRING>",
            "regexp_extract_all({1}, {0}, 0)",
            python=regular_expressions.regexp_extract_all,
        ),
        signature(
            "STRING pattern, STRING text, INTEGER group -> ARRAY<STRING>",
            lambda call: _extracted(call, "regexp_extract_all({1}, {0}, {2})"),
            python=regular_expressions.regexp_extract_all,
        ),
    ),
    scalar(
        "REGEXP_REPLACE",
        FAMILY,
        "The text with all matches replaced.",
        signature(
            "STRING text, STRING pattern, STRING other -> STRING",
            "regexp_replace({0}, {1}, {2})",
            python=regular_expressions.regexp_replace,
        ),
    ),
    scalar(
        "REGEXP_SPLIT_TO_ARRAY",
        FAMILY,
        "The parts between the matches; with an empty pattern, the single characters.",
        signature(
            "STRING text, STRING pattern -> ARRAY<STRING>",
            "IF({1} = '', regexp_extract_all({0}, '(?s).', 0), split({0}, {1}, -1))",
            python=regular_expressions.regexp_split_to_array,
        ),
    ),
)
