"""Regular expressions, as Java reads them."""

from __future__ import annotations

import re
from functools import lru_cache

from ottla.rows.java.regular_expressions import compile_java, replace_all


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return compile_java(pattern)


def extracted(pattern: str, text: str, group: int = 0) -> str | None:
    found = _compiled(pattern).search(text)
    if found is None or not 0 <= group <= found.re.groups:
        return None
    return found.group(group)


def all_extracted(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    expression = _compiled(pattern)
    if not 0 <= group <= expression.groups:
        return None
    return [each.group(group) for each in expression.finditer(text)]


def replaced(text: str, pattern: str, other: str) -> str:
    return replace_all(_compiled(pattern), other, text)


def split(text: str, pattern: str) -> list[str]:
    """An empty match at the beginning splits nothing off."""
    if not pattern:
        return list(text)
    parts, begin = [], 0
    for each in _compiled(pattern).finditer(text):
        if each.end() == 0 or (not each.group() and each.start() == len(text)):
            continue
        parts.append(text[begin : each.start()])
        begin = each.end()
    return [*parts, text[begin:]]
