"""User-defined functions in Python.

    from ottla.sql.functions import udf

    @udf
    def net(price: float, tax_percent: int) -> float:
        "The price before tax."
        return price / (1 + tax_percent / 100)

    @udf(name="SHOUT", signature="STRING text -> STRING")
    def loud(text):
        return text.upper() + "!"

If the setting `ottla.udf.modules` contains this module, statements can call NET and SHOUT.
Types come from hints (int is BIGINT, float DOUBLE, `list[str]` ARRAY<STRING>) or the signature.
If an argument is NULL the result is NULL, and the function is not called, unless a hint has
`| None`. If the function raises, the result is NULL as well: a bad row does not fail the query.
"""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from importlib import import_module
from typing import Any, Final, Union, get_args, get_origin, get_type_hints, overload

from ottla.rows.errors import SqlError
from ottla.sql.functions.function_registry import (
    Function,
    FunctionKind,
    FunctionRegistry,
    signature,
)
from ottla.sql.functions.python_form import with_nulls

MODULES: Final = "ottla.udf.modules"
"""The setting: comma-separated names of modules."""
FAMILY: Final = "User-defined"
_MARK: Final = "__ottla_udf__"
_NAMES: Final = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    date: "DATE",
    time: "TIME",
    datetime: "TIMESTAMP",
}

log = logging.getLogger("ottla.sql.udf")


@dataclass
class SafeFunction:
    """Wraps a function, so that it returns NULL instead of raising; it logs the first failure."""

    python: Callable[..., Any]
    name: str
    takes_nulls: bool
    failed: bool = False

    def __call__(self, *arguments: Any) -> Any:
        if not self.takes_nulls and None in arguments:
            return None
        try:
            return self.python(*arguments)
        except Exception:
            if not self.failed:
                self.failed = True
                log.warning("Function %s failed and returns NULL", self.name, exc_info=True)
            return None


@overload
def udf(python: Callable[..., Any], /) -> Callable[..., Any]: ...


@overload
def udf(
    *, name: str = "", signature: str = "", description: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def udf(
    python: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    signature: str = "",
    description: str = "",
) -> Any:
    """Mark a function as a SQL function; it is not changed for Python."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        made = python_function(function, name=name, text=signature, description=description)
        setattr(function, _MARK, made)
        return function

    return mark if python is None else mark(python)


def python_function(
    python: Callable[..., Any], *, name: str = "", text: str = "", description: str = ""
) -> Function:
    """The SQL function of a Python function."""
    named = (name or python.__name__).upper()
    nulls = _takes_nulls(python)
    calls = SafeFunction(python, named, nulls)
    call = f"ottla_{named.lower()}"
    described = description or inspect.cleandoc(python.__doc__ or "")
    text = text or _signature_of(python, named)
    shown = signature(text, f"{call}({{all}})", python=with_nulls(calls))
    return Function(named, FunctionKind.SCALAR, FAMILY, described, (shown,), udf=call, python=calls)


def load_user_functions(modules: str | Iterable[str], functions: FunctionRegistry) -> None:
    """Register the marked functions of modules."""
    names = modules.split(",") if isinstance(modules, str) else modules
    for name in (name.strip() for name in names):
        if name:
            functions.include(_marked(name))


def _marked(module: str) -> Sequence[Function]:
    try:
        loaded = import_module(module)
    except ImportError as error:
        raise SqlError(
            f"The module {module} of the setting {MODULES} can't be loaded: {error}",
            remedy="Install it, or add it to PYTHONPATH.",
        ) from error
    found = (getattr(value, _MARK, None) for value in vars(loaded).values())
    return [value for value in found if isinstance(value, Function)]


def _takes_nulls(python: Callable[..., Any]) -> bool:
    hints = get_type_hints(python)
    return any(type(None) in get_args(hint) for name, hint in hints.items() if name != "return")


def _signature_of(python: Callable[..., Any], name: str) -> str:
    hints = get_type_hints(python)
    parameters = []
    for parameter in inspect.signature(python).parameters.values():
        if parameter.name not in hints or parameter.kind is parameter.KEYWORD_ONLY:
            raise _unknown(name, parameter.name)
        again = "..." if parameter.kind is parameter.VAR_POSITIONAL else ""
        parameters.append(f"{_type_name(hints[parameter.name], name)}{again} {parameter.name}")
    if "return" not in hints:
        raise _unknown(name, "what it returns")
    return f"{', '.join(parameters)} -> {_type_name(hints['return'], name)}"


def _type_name(hint: Any, name: str) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        others = [argument for argument in get_args(hint) if argument is not type(None)]
        hint = others[0] if len(others) == 1 else hint
    arguments = [_type_name(argument, name) for argument in get_args(hint)]
    if get_origin(hint) is list and len(arguments) == 1:
        return f"ARRAY<{arguments[0]}>"
    if get_origin(hint) is dict and len(arguments) == 2:
        return f"MAP<{arguments[0]}, {arguments[1]}>"
    if hint in _NAMES:
        return _NAMES[hint]
    raise _unknown(name, repr(hint))


def _unknown(name: str, what: str) -> SqlError:
    return SqlError(
        f"Function {name} has no SQL type for {what}.",
        remedy="Use hints of int, float, str, bool, bytes, date, time, datetime, list or dict, or "
        'a signature: @udf(signature="DECIMAL(6, 2) price -> STRING").',
    )
