"""One PostgreSQL for all tests of a process; each test has a schema of its own in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from databases import TargetDatabase, postgres_place, sqlite_place

from ottla.testing.postgres import PostgresServer

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> TargetDatabase:
    name = f"test_{next(NUMBERS)}"
    with psycopg.connect(postgres_server.conninfo, autocommit=True) as line:
        line.execute(f"CREATE SCHEMA {name}")
    return postgres_place(postgres_server, name)


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.postgres), "sqlite"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TargetDatabase:
    """A database of either kind."""
    if request.param == "sqlite":
        return sqlite_place(tmp_path_factory.mktemp("sqlite") / "test.db")
    found: TargetDatabase = request.getfixturevalue("postgres")
    return found
