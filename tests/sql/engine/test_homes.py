"""Where the state of a service's queries is, as the broker knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.sql.engine.homes import Home, Homes
from ottla.sql.settings import Settings
from ottla.testing import LocalCluster


def test_a_state_directory_keeps_its_id_when_it_moves(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = Home.of(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    moved = Home.of(tmp_path / "b")
    assert (moved.id, moved.where != first.where) == (first.id, True)
    assert Home.of(tmp_path / "c").id != first.id


def test_who_has_another_state_is_refused_until_somebody_says_so(tmp_path: Path) -> None:
    ours, other = Home.of(tmp_path / "ours"), Home.of(tmp_path / "other")
    with LocalCluster() as cluster:
        cluster.create_topic("commands")

        def homes(*, moved: bool = False) -> Homes:
            servers = cluster.bootstrap_servers
            return Homes(servers, topic="commands", group="home", moved=moved)

        homes().release()  # of nobody
        assert homes().claim(ours) == ""
        assert homes().claim(ours) == ""
        refused = homes().claim(other)
        assert str(tmp_path / "ours") in refused
        assert "--state-dir" in refused
        assert homes(moved=True).claim(other) == ""
        assert str(tmp_path / "other") in homes().claim(ours)
        homes().release()
        assert homes().claim(ours) == ""


def test_a_server_and_a_shell_have_one_place_for_their_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Settings().state_dir("c1") == tmp_path / "ottla" / "sql" / "c1" / "default_"
    given = Settings({"ksql.streams.state.dir": "/data", "ksql.service.id": "a_"})
    assert given.state_dir("c1") == Path("/data/a_")
    headless = Settings({"ksql.queries.file": "q.sql"})
    assert headless.state_dir("c1") == Path("sql-state/default_").absolute()
