"""The PostgreSQL server that tests are given."""

from __future__ import annotations

import psycopg
import pytest

from ottla.testing.postgres import PostgresServer, programs


@pytest.mark.postgres
def test_committed_rows_survive_a_kill() -> None:
    with PostgresServer() as server:
        conninfo = server.conninfo
        with psycopg.connect(server.conninfo) as line:
            line.execute("CREATE TABLE kept (id int)")
            line.execute("INSERT INTO kept VALUES (1)")
        server.kill()
        server.start()
        with psycopg.connect(server.conninfo) as line:
            assert line.execute("SELECT id FROM kept").fetchall() == [(1,)]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(conninfo, connect_timeout=2)
    assert (programs() / "initdb").exists()
