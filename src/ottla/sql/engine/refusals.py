"""Errors for statements that a server does not execute, with what to do instead."""

from __future__ import annotations

from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.syntax.statements import (
    AlterSystem,
    AssertSource,
    AssertValues,
    CreateConnector,
    DropConnector,
    Print,
    RunScript,
    Select,
    Statement,
)


def refusal(statement: Statement) -> SqlError:
    match statement:
        case Select() | Print():
            return SqlError(
                "The following statement types should be issued to the websocket endpoint"
                " '/query':\n\t* PRINT\n\t* SELECT",
                remedy="Send it to /query-stream.",
                code=SqlCode.QUERY_ENDPOINT,
            )
        case AssertValues() | AssertSource():
            return SqlError(
                "ASSERT VALUES, STREAM and TABLE are for SQL tests, not for a server.",
                remedy="DESCRIBE shows a definition, SELECT its rows.",
            )
        case RunScript():
            return SqlError(
                "The shell executes RUN SCRIPT, not the server.",
                remedy="Send the statements of the script themselves.",
            )
        case AlterSystem():
            return SqlError(
                "ALTER SYSTEM is not supported: the server reads its settings at startup.",
                remedy="SET changes a property for the statements of this session.",
            )
    return SqlError(
        f"Statement type `{type(statement).__name__}` is not supported.", remedy="See docs/sql.md."
    )


def refusal_in_file(statement: Statement) -> SqlError:
    """The file is executed at each start, so it may only contain statements that give the same
    result each time."""
    remedy = "Remove it: only definitions, queries and SET are allowed."
    if isinstance(statement, (CreateConnector, DropConnector)):
        remedy = (
            "The Connect worker stores its connectors: create them once, with `ottla connect"
            " create` or on a server without a file."
        )
    return SqlError(
        f"{type(statement).__name__} is not allowed in the queries file of a server.",
        remedy=remedy,
        line=statement.line,
        column=statement.column,
    )
