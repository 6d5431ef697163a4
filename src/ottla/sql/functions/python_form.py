"""PythonForm: the implementation of a function in Python, next to its text for Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.rows.types import SqlType


@dataclass(frozen=True, slots=True)
class PythonForm:
    """A function of values. It gives NULL if it raises, or if an argument is NULL, unless it
    `takes_nulls`.

    `by_types`: it is called once, with the types of the result and of the arguments (None for a
    lambda or a unit), and returns the function of values."""

    function: Callable[..., Any]
    takes_nulls: bool = False
    by_types: bool = False

    def safe(self, *types: SqlType | None) -> Callable[..., Any]:
        function = self.function(*types) if self.by_types else self.function
        return _any(function) if self.takes_nulls else _strict(function)


def with_nulls(function: Callable[..., Any]) -> PythonForm:
    """A function that is called with NULL arguments, too."""
    return PythonForm(function, takes_nulls=True)


def by_types(make: Callable[..., Any], *, takes_nulls: bool = False) -> PythonForm:
    return PythonForm(make, takes_nulls=takes_nulls, by_types=True)


def _any(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception:
            return None

    return computed


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*arguments: Any) -> Any:
        if None in arguments:
            return None
        try:
            return function(*arguments)
        except Exception:
            return None

    return computed
