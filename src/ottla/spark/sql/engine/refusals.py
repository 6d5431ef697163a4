"""Statements that a server does not carry out, and what to do instead."""

from __future__ import annotations

from ottla.spark.sql.engine.answers import CONNECT_REMEDY, NO_CONNECT
from ottla.spark.sql.errors import SqlCode, SqlError
from ottla.spark.sql.syntax.statements import (
    AlterSystem,
    AssertSchema,
    AssertSource,
    AssertValues,
    CreateConnector,
    DescribeConnector,
    DropConnector,
    Print,
    RunScript,
    Select,
    Statement,
)


def refused(statement: Statement) -> SqlError:
    match statement:
        case Select() | Print():
            return SqlError(
                "The following statement types should be issued to the websocket endpoint"
                " '/query':\n\t* PRINT\n\t* SELECT",
                remedy="Send it to /query-stream.",
                code=SqlCode.QUERY_ENDPOINT,
            )
        case CreateConnector() | DropConnector() | DescribeConnector():
            return SqlError(NO_CONNECT, remedy=CONNECT_REMEDY)
        case AssertSchema():
            return SqlError(
                "ASSERT SCHEMA needs a schema registry, which is not built yet.",
                remedy="ASSERT TOPIC can be used.",
            )
        case AssertValues() | AssertSource():
            return SqlError(
                "ASSERT VALUES, STREAM and TABLE belong to tests of SQL, not to a server.",
                remedy="DESCRIBE shows a definition, a SELECT its rows.",
            )
        case RunScript():
            return SqlError(
                "RUN SCRIPT is carried out by the shell, not by the server.",
                remedy="Send the statements of the script themselves.",
            )
        case AlterSystem():
            return SqlError(
                "ALTER SYSTEM is not supported: the server's own settings are given at its start.",
                remedy="SET changes a property for the statements of this session.",
            )
    return SqlError(
        f"Statement type `{type(statement).__name__}` is not supported.", remedy="See docs/sql.md."
    )
