"""Functions of one's own, in Python.

    from ottla.sql.functions import udf

    @udf
    def net(price: float, tax_percent: int) -> float:
        "The price before tax."
        return price / (1 + tax_percent / 100)

    @udf(name="SHOUT", signature="STRING text -> STRING")
    def loud(text):
        return text.upper() + "!"

In a module that the setting `ottla.udf.modules` names, all statements can call NET and SHOUT.
Types come from hints (int is BIGINT, float DOUBLE, `list[str]` ARRAY<STRING>) or the signature.
A call with a NULL is NULL and does not reach the function, unless a hint says `| None`; and so is
one that raises: a bad row does not end a query.
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
from ottla.sql.functions.python_form import with_nulls
from ottla.sql.functions.table import Function, FunctionKind, Functions, signature

MODULES: Final = "ottla.udf.modules"
"""The setting: names of modules with commas between them."""
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
class Safe:
    """A function of which a bad row learns no more than NULL. It says the first failure aloud."""

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
                log.warning("the function %s failed, and gives NULL", self.name, exc_info=True)
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
    """Marks a function for the SQL; it stays what it is for Python."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        made = python_function(function, name=name, text=signature, description=description)
        setattr(function, _MARK, made)
        return function

    return mark if python is None else mark(python)


def python_function(
    python: Callable[..., Any], *, name: str = "", text: str = "", description: str = ""
) -> Function:
    """A line of the table for a Python function."""
    named = (name or python.__name__).upper()
    nulls = _takes_nulls(python)
    calls = Safe(python, named, nulls)
    call = f"ottla_{named.lower()}"
    described = description or inspect.cleandoc(python.__doc__ or "")
    text = text or _signature_of(python, named)
    shown = signature(text, f"{call}({{all}})", python=with_nulls(calls))
    return Function(named, FunctionKind.SCALAR, FAMILY, described, (shown,), udf=call, python=calls)


def load_functions(modules: str | Iterable[str], functions: Functions) -> None:
    """Puts what the modules have marked into the table."""
    names = modules.split(",") if isinstance(modules, str) else modules
    for name in (each.strip() for each in names):
        if name:
            functions.include(_marked(name))


def _marked(module: str) -> Sequence[Function]:
    try:
        loaded = import_module(module)
    except ImportError as error:
        raise SqlError(
            f"The module {module} of the setting {MODULES} can't be loaded: {error}",
            remedy="It must be on the path of this Python (PYTHONPATH, or installed).",
        ) from error
    found = (getattr(each, _MARK, None) for each in vars(loaded).values())
    return [each for each in found if isinstance(each, Function)]


def _takes_nulls(python: Callable[..., Any]) -> bool:
    hints = get_type_hints(python)
    return any(type(None) in get_args(hint) for name, hint in hints.items() if name != "return")


def _signature_of(python: Callable[..., Any], name: str) -> str:
    hints = get_type_hints(python)
    parameters = []
    for each in inspect.signature(python).parameters.values():
        if each.name not in hints or each.kind is each.KEYWORD_ONLY:
            raise _unknown(name, each.name)
        again = "..." if each.kind is each.VAR_POSITIONAL else ""
        parameters.append(f"{_type_name(hints[each.name], name)}{again} {each.name}")
    if "return" not in hints:
        raise _unknown(name, "what it returns")
    return f"{', '.join(parameters)} -> {_type_name(hints['return'], name)}"


def _type_name(hint: Any, name: str) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        others = [each for each in get_args(hint) if each is not type(None)]
        hint = others[0] if len(others) == 1 else hint
    arguments = [_type_name(each, name) for each in get_args(hint)]
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
        remedy="Give hints of int, float, str, bool, bytes, date, time, datetime, list or dict, or "
        'a signature: @udf(signature="DECIMAL(6, 2) price -> STRING").',
    )
