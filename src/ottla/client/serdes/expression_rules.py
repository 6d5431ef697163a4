"""Rule executors for CEL and JSONata, with the libraries of the extra `[rules]`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ottla.extras import install_command

if TYPE_CHECKING:
    from ottla.client.serdes.contract_rules import RuleContext, RuleExecutor

EXPRESSIONS_MAX: Final = 1_000
_MISSING: Final = "rules of type {} need more packages: {}"


def expression_executor(kind: str) -> RuleExecutor:
    return run_cel if kind == "CEL" else run_jsonata


def run_cel(context: RuleContext, value: Any) -> Any:
    """`message` is the value. In an expression `guard; rest`, the rest counts if the guard
    holds."""
    rule = context.rule
    guard, semicolon, rest = rule.expr.partition(";")
    expression = rest if semicolon else guard
    if semicolon and guard.strip() and not _cel(guard)(value):
        return True if rule.kind == "CONDITION" else value
    return _cel(expression)(value)


def run_jsonata(context: RuleContext, value: Any) -> Any:
    return _jsonata(context.rule.expr)(value)


@lru_cache(EXPRESSIONS_MAX)
def _cel(expression: str) -> Callable[[Any], Any]:
    try:
        import celpy
    except ImportError:
        raise ImportError(_MISSING.format("CEL", install_command("rules"))) from None
    environment = celpy.Environment()
    program = environment.program(environment.compile(expression))

    def evaluate(value: Any) -> Any:
        return _plain(program.evaluate({"message": _to_cel(value)}))

    return evaluate


def _to_cel(value: Any) -> Any:
    from celpy import celtypes
    from celpy.adapter import json_to_cel

    if isinstance(value, dict):
        return celtypes.MapType(
            {celtypes.StringType(key): _to_cel(part) for key, part in value.items()}
        )
    if isinstance(value, list | tuple):
        return celtypes.ListType([_to_cel(part) for part in value])
    if isinstance(value, bytes):
        return celtypes.BytesType(value)
    return json_to_cel(value)


def _plain(value: Any) -> Any:
    """CEL's types are subclasses of Python's: fastavro and orjson want the plain ones."""
    from celpy import celtypes

    if isinstance(value, celtypes.BoolType):
        return bool(value)
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, int) else value


@lru_cache(EXPRESSIONS_MAX)
def _jsonata(expression: str) -> Callable[[Any], Any]:
    try:
        import jsonata
    except ImportError:
        raise ImportError(_MISSING.format("JSONATA", install_command("rules"))) from None
    evaluate: Callable[[Any], Any] = jsonata.Jsonata(expression).evaluate
    return evaluate
