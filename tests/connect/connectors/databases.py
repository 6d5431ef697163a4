"""Databases that tests write and read directly, beside the connectors."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from ottla.testing.postgres import PostgresServer


@dataclass
class TargetDatabase:
    kind: str
    config: dict[str, str]
    conninfo: str = ""
    path: str = ""
    schema: str | None = None
    words: dict[str, str] = field(default_factory=dict)

    def run(self, sql: str, rows: Sequence[Sequence[Any]] | None = None) -> None:
        """Runs a statement on a separate connection; {words} are replaced by the database's own."""
        text = sql
        for name, word in self.words.items():
            text = text.replace(f"{{{name}}}", word)
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as line, line:
                line.executemany(text, rows) if rows is not None else line.executescript(text)
            return
        with psycopg.connect(self.conninfo, autocommit=True) as line:
            if rows is None:
                line.execute(text)  # type: ignore[arg-type]
            else:
                line.cursor().executemany(text.replace("?", "%s"), rows)  # type: ignore[arg-type]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as line:
                return line.execute(sql).fetchall()
        with psycopg.connect(self.conninfo) as line:
            return line.execute(sql).fetchall()  # type: ignore[arg-type]


def sqlite_place(path: Path) -> TargetDatabase:
    words = {"id": "INTEGER PRIMARY KEY", "timestamp": "TIMESTAMP", "bigint": "INTEGER"}
    return TargetDatabase(
        "sqlite", {"connection.url": f"jdbc:sqlite:{path}"}, path=str(path), words=words
    )


def postgres_place(server: PostgresServer, schema: str) -> TargetDatabase:
    words = {"id": "BIGSERIAL PRIMARY KEY", "timestamp": "TIMESTAMP", "bigint": "BIGINT"}
    return TargetDatabase(
        "postgres",
        {
            "connection.url": f"{server.url}&currentSchema={schema}",
            "schema.pattern": schema,
            "connection.attempts": "1",
        },
        conninfo=f"{server.conninfo} options='-c search_path={schema}'",
        schema=schema,
        words=words,
    )
