"""A Spark session made ready for the SQL."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.sql.functions.patterns import Bound, concrete
from ottla.sql.functions.table import Function
from ottla.sql.functions.user import Safe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    # ksqlDB is built on Java, and so is what it makes of a bad row: numbers wrap, what can't be
    # computed is NULL. With ANSI mode one such row would end the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
"""What the text that `to_spark` gives counts on."""


def register_udfs(spark: SparkSession, functions: Iterable[Function] | None = None) -> None:
    """Sets what the SQL counts on, and makes the functions that are Python known to Spark.

    It changes the session: a session of one's own (`spark.newSession()`) is best."""
    from pyspark.sql.functions import udf

    from ottla.sql.functions import BUILTIN

    for name, value in SESSION_SETTINGS.items():
        spark.conf.set(name, value)
    for each in BUILTIN if functions is None else functions:
        if each.python is not None:
            returns = concrete(each.signatures[0].result, Bound())
            assert returns is not None, f"{each.name} gives no type of its own"
            send_by_value(each)
            made = udf(each.python, returnType=returns.spark, useArrow=True)
            spark.udf.register(each.udf, made)


def send_by_value(function: Function) -> None:
    """A user's module need not be installed where Spark's workers run: its functions travel."""
    python = function.python
    if isinstance(python, Safe):
        from pyspark.cloudpickle import register_pickle_by_value

        module = sys.modules.get(python.python.__module__)
        if module is not None and module.__name__ != "__main__":
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
