"""What users hand in may take the value alone, or key and value: told by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_key(function: Callable[..., Any]) -> bool:
    """Two parameters without default: key and value. One, or none that can be told: the value."""
    count = required(function)
    if count > 2:
        raise TypeError(
            f"{function!r} takes {count} arguments; give one of (value) or (key, value)"
        )
    return count == 2


def required(function: Callable[..., Any]) -> int:
    """How many positional arguments must be given; 1 for builtins that don't tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for each in parameters if each.kind in positional and each.default is each.empty)


def with_key(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Called with key and value, whichever of the two forms it has."""
    return function if takes_key(function) else lambda key, value: function(value)


def with_context(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """For functions of a record, or of a record and one thing more."""
    return function if required(function) >= 2 else lambda record, more: function(record)
