"""The error codes that a response carries, wherever in it they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from ottla.wire.primitives import Message

NONE: Final = 0
_LIST: Final = re.compile(r"list\[(\w+)\]")


class Codes:
    """Finds the errors of responses of one class: where to look is found out once."""

    __slots__ = ("_has_code", "_lists")

    def __init__(self, message: type[Message]) -> None:
        self._has_code = "error_code" in message.__match_args__
        self._lists = [(name, each) for name, each in _nested(message) if each]

    def __bool__(self) -> bool:
        return self._has_code or bool(self._lists)

    def errors(self, response: Any) -> Iterator[int]:
        """Every code that is not NONE."""
        if self._has_code and response.error_code != NONE:
            yield response.error_code
        for name, inner in self._lists:
            for item in getattr(response, name) or ():
                yield from inner.errors(item)


def _nested(message: type[Message]) -> Iterator[tuple[str, Codes]]:
    """The fields that are lists of messages, as the constructor names their types.

    A compiled class does not tell them: Produce and Fetch, which are looked at on their own.
    """
    module = inspect.getmodule(message)
    types = getattr(message.__init__, "__annotations__", {})
    for field in message.__match_args__:
        found = _LIST.search(str(types.get(field, "")))
        inner = getattr(module, found[1], None) if found is not None else None
        if isinstance(inner, type) and issubclass(inner, Message):
            yield field, Codes(inner)
