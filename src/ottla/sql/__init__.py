"""ksqlDB's language on Spark: text -> statements -> plans -> streaming queries.

from ottla.sql import SqlTestDriver
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.extras import require

require("ottla.sql", "spark", ("pyarrow", "numpy", "sqlglot", "orjson"))

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver as SqlTestDriver


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: most of the SQL does not need it."""
    if name == "SqlTestDriver":
        from ottla.sql.driver import SqlTestDriver

        return SqlTestDriver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
