"""SQL: ksqlDB's language and REST API, with queries that run on Spark.

A statement is parsed (`syntax`), planned against the catalog (`expressions`, `functions`, `plan`),
and written to the command topic by the engine (`engine`). A persistent query runs as Spark
Structured Streaming queries (`run`); one with state is lowered to tasks of `ottla.engine`
(`lowering`). `server` is ksqlDB's REST API, `shell` its command line.

    catalog.py             streams, tables, types and queries: immutable snapshots
    plan/planner.py        a query becomes a plan: stages from topics to a topic
    engine/engine.py       Engine: executes statements and opens queries
    driver.py              SqlTestDriver: the same SQL in one process, for tests

Users import `from ottla.sql import SqlTestDriver` and `from ottla.sql.functions import udf`.
Only `run` may import pyspark. The rest of this room needs neither Spark nor a broker to be
imported, and none of it may import `ottla.streams`, `ottla.connect`, or the broker's rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.extras import require

require("ottla.sql", "spark", ("pyarrow", "numpy", "sqlglot", "orjson"))

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver as SqlTestDriver


def __getattr__(name: str) -> Any:
    """Import the driver on first use: most of the room does not need it."""
    if name == "SqlTestDriver":
        from ottla.sql.driver import SqlTestDriver

        return SqlTestDriver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
