"""Prepares a Spark session for SQL: settings and Python functions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.sql.functions.function_registry import Function
from ottla.sql.functions.patterns import Bound, concrete
from ottla.sql.functions.user_functions import SafeFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    # ksqlDB has Java's arithmetic: integers wrap around, and errors give NULL. With ANSI mode one
    # such row would fail the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
"""Settings that texts of `to_spark` depend on."""


def prepare_session(spark: SparkSession, functions: Iterable[Function] | None = None) -> None:
    """Apply the settings, and register functions that are implemented in Python.

    This changes the session, so callers should use `spark.newSession()`."""
    from pyspark.sql.functions import udf

    from ottla.sql.functions import BUILTIN

    for name, value in SESSION_SETTINGS.items():
        spark.conf.set(name, value)
    for function in BUILTIN if functions is None else functions:
        if function.python is not None:
            returns = concrete(function.signatures[0].result, Bound())
            assert returns is not None, f"{function.name} has no fixed result type"
            send_by_value(function)
            made = udf(function.python, returnType=returns.spark, useArrow=True)
            spark.udf.register(function.udf, made)


def send_by_value(function: Function) -> None:
    """Pickle user functions by value, because workers may not have the user's module installed."""
    python = function.python
    if isinstance(python, SafeFunction):
        from pyspark.cloudpickle import register_pickle_by_value

        module = sys.modules.get(python.python.__module__)
        if module is not None and module.__name__ != "__main__":
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
