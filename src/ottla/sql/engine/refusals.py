"""Statements that a server does not carry out, and what to do instead."""

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


def refused(statement: Statement) -> SqlError:
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


def not_in_a_file(statement: Statement) -> SqlError:
    """A file is run at each start: what it says has to be the same each time."""
    remedy = "Leave it out: definitions, queries and SET belong here."
    if isinstance(statement, (CreateConnector, DropConnector)):
        remedy = (
            "The Connect worker keeps its connectors: make them once, with `ottla connect create`"
            " or at a server without a file."
        )
    return SqlError(
        f"{type(statement).__name__} is no statement for a file that a server runs.",
        remedy=remedy,
        line=statement.line,
        column=statement.column,
    )
