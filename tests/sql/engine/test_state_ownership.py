"""State ownership, as recorded in the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.sql.engine.state_ownership import StateDirectory, StateOwnership
from ottla.sql.ksql_config import KsqlConfig
from ottla.testing import LocalCluster


def test_a_state_directory_keeps_its_id_when_it_moves(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = StateDirectory.of(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    moved = StateDirectory.of(tmp_path / "b")
    assert (moved.id, moved.where != first.where) == (first.id, True)
    assert StateDirectory.of(tmp_path / "c").id != first.id


def test_another_state_directory_is_refused_unless_it_was_moved(tmp_path: Path) -> None:
    ours, other = StateDirectory.of(tmp_path / "ours"), StateDirectory.of(tmp_path / "other")
    with LocalCluster() as cluster:
        cluster.create_topic("commands")

        def ownership(*, moved: bool = False) -> StateOwnership:
            servers = cluster.bootstrap_servers
            return StateOwnership(servers, topic="commands", group="home", moved=moved)

        ownership().release()  # without an owner
        assert ownership().claim(ours) == ""
        assert ownership().claim(ours) == ""
        refused = ownership().claim(other)
        assert str(tmp_path / "ours") in refused
        assert "--state-dir" in refused
        assert ownership(moved=True).claim(other) == ""
        assert str(tmp_path / "other") in ownership().claim(ours)
        ownership().release()
        assert ownership().claim(ours) == ""


def test_a_server_and_a_shell_share_their_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert KsqlConfig().state_dir("c1") == tmp_path / "ottla" / "sql" / "c1" / "default_"
    given = KsqlConfig({"ksql.streams.state.dir": "/data", "ksql.service.id": "a_"})
    assert given.state_dir("c1") == Path("/data/a_")
    headless = KsqlConfig({"ksql.queries.file": "q.sql"})
    assert headless.state_dir("c1") == Path("sql-state/default_").absolute()
