"""Regular expressions: Java's, in ksqlDB and in Spark."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.sql.functions.declare import scalar, signature
from ottla.sql.functions.python import regular as python
from ottla.sql.functions.table import Call

FAMILY: Final = "Regular expressions"


def _groups(pattern: Any) -> int | None:
    """How many groups a pattern has, where Python can tell."""
    try:
        return re.compile(pattern).groups if isinstance(pattern, str) else None
    except re.error:
        return None


def _extracted(call: Call, text: str) -> str:
    """Spark fails for a group that the pattern has not, and ksqlDB gives NULL."""
    group = call.constants[2]
    known = _groups(call.constants[0])
    if isinstance(group, int) and known is not None and not 0 <= group <= known:
        return f"CAST(NULL AS {call.returns.spark})"
    return call.filled(text)


REGULAR: Final = (
    scalar(
        "REGEXP_EXTRACT",
        FAMILY,
        "The first part of the text that matches, or what a group in it matched; else NULL.",
        signature(
            "STRING pattern, STRING text -> STRING",
            "regexp_substr({1}, {0})",
            python=python.extracted,
        ),
        signature(
            "STRING pattern, STRING text, INTEGER group -> STRING",
            lambda call: _extracted(
                call, "CASE WHEN regexp_like({1}, {0}) THEN regexp_extract({1}, {0}, {2}) END"
            ),
            python=python.extracted,
        ),
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        FAMILY,
        "All parts of the text that match, or what a group in each matched.",
        signature(
            "STRING pattern, STRING text -> ARRAY<STRING>",
            "regexp_extract_all({1}, {0}, 0)",
            python=python.all_extracted,
        ),
        signature(
            "STRING pattern, STRING text, INTEGER group -> ARRAY<STRING>",
            lambda call: _extracted(call, "regexp_extract_all({1}, {0}, {2})"),
            python=python.all_extracted,
        ),
    ),
    scalar(
        "REGEXP_REPLACE",
        FAMILY,
        "The text with another for each part that matches.",
        signature(
            "STRING text, STRING pattern, STRING other -> STRING",
            "regexp_replace({0}, {1}, {2})",
            python=python.replaced,
        ),
    ),
    scalar(
        "REGEXP_SPLIT_TO_ARRAY",
        FAMILY,
        "What lies between the parts that match; with an empty pattern, each character by itself.",
        signature(
            "STRING text, STRING pattern -> ARRAY<STRING>",
            "IF({1} = '', regexp_extract_all({0}, '(?s).', 0), split({0}, {1}, -1))",
            python=python.split,
        ),
    ),
)
