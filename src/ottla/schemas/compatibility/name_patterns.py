"""Untrusted regular expressions, matched against property names.

Python's engine backtracks, so a pattern like (a+)+$ can take for ever, and it can't be
stopped. A pattern is run only if its repetitions can't multiply: each repeats single characters,
there are few of them, and the name is short.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from typing import Any, Final

from ottla.schemas.limits import TooComplex

# Python's own parser of regular expressions, which typeshed only knows in some versions.
codes: Final[Any] = import_module("re._constants")
_parser: Final[Any] = import_module("re._parser")

PATTERN_CHARS_MAX = 256
NAME_CHARS_MAX = 256
# Backtracking tries each split of the name: its length to the power of this.
REPEATS_MAX = 2

_SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)


class NamePattern:
    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled: re.Pattern[str] | None = None

    def matches(self, name: str) -> bool:
        if self._compiled is None:
            self._compiled = _compile(self.text)
        if len(name) > NAME_CHARS_MAX:
            raise TooComplex(f"a property name has more than {NAME_CHARS_MAX} characters")
        return self._compiled.search(name) is not None


def _compile(text: str) -> re.Pattern[str]:
    if len(text) > PATTERN_CHARS_MAX:
        raise TooComplex(f"a pattern has more than {PATTERN_CHARS_MAX} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _parser.parse(text)
            if _repeats(tree) > REPEATS_MAX:
                raise TooComplex(f"the pattern {text} may need too many steps")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise TooComplex(f"the pattern {text} can't be read: {error}") from error


def _repeats(tree: Any) -> int:
    """The number of repetitions; too many if one repeats more than single characters."""
    count = 0
    for code, argument in tree:
        if code in _REPEATS:
            low, high, body = argument
            single = len(body) == 1 and body[0][0] in _SINGLE
            if not single:
                return REPEATS_MAX + 1
            count += low != high
        elif code == codes.BRANCH:
            count += max(_repeats(branch) for branch in argument[1])
        elif code == codes.SUBPATTERN:
            count += _repeats(argument[3])
        elif code not in (*_SINGLE, codes.AT):
            return REPEATS_MAX + 1  # look-around and back references: not worth a proof
    return count
