"""UserFunctions: functions of a server's own modules, on their way to where a graph runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.engine.graph import Supplier
from ottla.sql.functions import BUILTIN
from ottla.sql.functions.table import Function
from ottla.sql.functions.user import FAMILY

Included = Callable[[tuple[Function, ...]], "UserFunctions"]


class UserFunctions:
    """In the process that it is unpickled in, the table of functions has them from then on."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.functions = functions

    @classmethod
    def known(cls) -> UserFunctions:
        return cls(tuple(each for each in BUILTIN if each.family == FAMILY))

    def __reduce__(self) -> tuple[Included, tuple[tuple[Function, ...]]]:
        return _included, (self.functions,)


def _included(functions: tuple[Function, ...]) -> UserFunctions:
    BUILTIN.include(functions)
    return UserFunctions(functions)


class WithFunctions:
    """A supplier of processors that takes the functions along."""

    def __init__(self, supplier: Supplier, functions: UserFunctions) -> None:
        self._supplier = supplier
        self._functions = functions

    def __call__(self) -> Any:
        return self._supplier()
