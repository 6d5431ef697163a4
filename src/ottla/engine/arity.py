"""User functions take (value) or (key, value); their signature says which."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_key(function: Callable[..., Any]) -> bool:
    """True for two required parameters: (key, value). Otherwise the function takes the value."""
    count = arity(function)
    if count > 2:
        raise TypeError(
            f"{function!r} takes {count} arguments; give one of (value) or (key, value)"
        )
    return count == 2


def arity(function: Callable[..., Any]) -> int:
    """The number of required positional arguments; 1 for builtins without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        1
        for parameter in parameters
        if parameter.kind in positional and parameter.default is parameter.empty
    )


def with_key(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Adapts a function of either form to (key, value)."""
    return function if takes_key(function) else lambda key, value: function(value)


def with_context(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Adapts a function of (record) or (record, stream time) to two arguments."""
    return function if arity(function) >= 2 else lambda record, more: function(record)
