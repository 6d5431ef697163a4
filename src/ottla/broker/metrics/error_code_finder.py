"""Finds the error codes in a response, at any depth."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from ottla.wire.fields import Message

NONE: Final = 0
_LIST: Final = re.compile(r"list\[(\w+)\]")


class ErrorCodeFinder:
    """Finds the error codes in responses of one class, whose fields it examines only once."""

    __slots__ = ("_has_code", "_lists")

    def __init__(self, message: type[Message]) -> None:
        self._has_code = "error_code" in message.__match_args__
        self._lists = [(name, codes) for name, codes in _nested(message) if codes]

    def __bool__(self) -> bool:
        return self._has_code or bool(self._lists)

    def errors(self, response: Any) -> Iterator[int]:
        """Every code that is not NONE."""
        if self._has_code and response.error_code != NONE:
            yield response.error_code
        for name, inner in self._lists:
            for item in getattr(response, name) or ():
                yield from inner.errors(item)


def _nested(message: type[Message]) -> Iterator[tuple[str, ErrorCodeFinder]]:
    """The fields that are lists of messages, by the annotations of the constructor.

    Compiled classes have no annotations: those of Produce and Fetch, which are counted separately.
    """
    module = inspect.getmodule(message)
    types = getattr(message.__init__, "__annotations__", {})
    for field in message.__match_args__:
        found = _LIST.search(str(types.get(field, "")))
        inner = getattr(module, found[1], None) if found is not None else None
        if isinstance(inner, type) and issubclass(inner, Message):
            yield field, ErrorCodeFinder(inner)
