"""Databases that tests write to and look into, beside the connectors."""

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
class Place:
    kind: str
    config: dict[str, str]
    conninfo: str = ""
    path: str = ""
    schema: str | None = None
    words: dict[str, str] = field(default_factory=dict)

    def run(self, sql: str, rows: Sequence[Sequence[Any]] | None = None) -> None:
        """A statement by a connection of its own; {words} are what the database calls it."""
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


def sqlite_place(path: Path) -> Place:
    words = {"id": "INTEGER PRIMARY KEY", "timestamp": "TIMESTAMP", "bigint": "INTEGER"}
    return Place("sqlite", {"connection.url": f"jdbc:sqlite:{path}"}, path=str(path), words=words)


def postgres_place(server: PostgresServer, schema: str) -> Place:
    words = {"id": "BIGSERIAL PRIMARY KEY", "timestamp": "TIMESTAMP", "bigint": "BIGINT"}
    return Place(
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
