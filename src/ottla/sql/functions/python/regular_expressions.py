"""Functions of regular expressions, with Java's syntax."""

from __future__ import annotations

import re
from functools import lru_cache

from ottla.rows.java.regular_expressions import compile_regular_expression, replace_all


@lru_cache(maxsize=1024)
def _regular_expression(pattern: str) -> re.Pattern[str]:
    return compile_regular_expression(pattern)


def regexp_extract(pattern: str, text: str, group: int = 0) -> str | None:
    found = _regular_expression(pattern).search(text)
    if found is None or not 0 <= group <= found.re.groups:
        return None
    return found.group(group)


def regexp_extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    expression = _regular_expression(pattern)
    if not 0 <= group <= expression.groups:
        return None
    return [match.group(group) for match in expression.finditer(text)]


def regexp_replace(text: str, pattern: str, other: str) -> str:
    return replace_all(_regular_expression(pattern), other, text)


def regexp_split_to_array(text: str, pattern: str) -> list[str]:
    """Split at matches; an empty match at the start is ignored."""
    if not pattern:
        return list(text)
    parts, begin = [], 0
    for match in _regular_expression(pattern).finditer(text):
        if match.end() == 0 or (not match.group() and match.start() == len(text)):
            continue
        parts.append(text[begin : match.start()])
        begin = match.end()
    return [*parts, text[begin:]]
