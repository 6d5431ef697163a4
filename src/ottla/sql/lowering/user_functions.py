"""UserFunctions: sends user-defined functions to the process where a graph runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.engine.graph import ProcessorSupplier
from ottla.sql.functions import BUILTIN
from ottla.sql.functions.function_registry import Function
from ottla.sql.functions.user_functions import FAMILY

Included = Callable[[tuple[Function, ...]], "UserFunctions"]


class UserFunctions:
    """User-defined functions. Unpickling it registers them in that process."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.functions = functions

    @classmethod
    def known(cls) -> UserFunctions:
        return cls(tuple(function for function in BUILTIN if function.family == FAMILY))

    def __reduce__(self) -> tuple[Included, tuple[tuple[Function, ...]]]:
        return _included, (self.functions,)


def _included(functions: tuple[Function, ...]) -> UserFunctions:
    BUILTIN.include(functions)
    return UserFunctions(functions)


class WithFunctions:
    """A supplier of processors that brings the functions along."""

    def __init__(self, supplier: ProcessorSupplier, functions: UserFunctions) -> None:
        self._supplier = supplier
        self._functions = functions

    def __call__(self) -> Any:
        return self._supplier()
