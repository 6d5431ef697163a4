"""Connectors in files: properties and JSON of two kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.files import wanted_of
from ottla.connect.run.states import Target
from ottla.connect.settings import Settings

CONFIG = {"name": "lines", "connector.class": "FileStreamSource", "tasks.max": "2"}


@pytest.mark.parametrize(
    ("file", "text", "target"),
    [
        ("c.properties", "name=lines\nconnector.class = FileStreamSource\ntasks.max=2\n", None),
        (
            "c.json",
            '{"name": "lines", "connector.class": "FileStreamSource", "tasks.max": 2}',
            None,
        ),
        (
            "c.txt",
            '{"name": "lines", "initial_state": "paused",'
            ' "config": {"connector.class": "FileStreamSource", "tasks.max": "2"}}',
            Target.PAUSED,
        ),
    ],
)
def test_every_way_to_write_it(tmp_path: Path, file: str, text: str, target: Target | None) -> None:
    path = tmp_path / file
    path.write_text(text)
    found = wanted_of(path)
    assert (found.name, found.config, found.target) == ("lines", CONFIG, target)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("tasks.max=1", "a connector has a `name`"),
        ('{"name": "a", "config": {}, "initial_state": "flying"}', "initial_state flying"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(ConfigException, match=words):
        wanted_of(path)
    with pytest.raises(ConfigException, match="Can't read"):
        wanted_of(tmp_path / "none")


def test_a_workers_settings() -> None:
    plain = Settings({})
    assert plain.listener == ("127.0.0.1", 8083)
    assert plain.advertised("127.0.0.1", 8083) == "127.0.0.1:8083"
    assert plain.replication_factor("config") is None
    named = Settings(
        {
            "listeners": "http://[::1]:0,https://x:1",
            "rest.advertised.host.name": "me",
            "rest.advertised.port": "99",
            "status.storage.replication.factor": "3",
            "status.storage.min.insync.replicas": "2",
            "admin.listeners": "",
        }
    )
    assert named.listener == ("::1", 0)
    assert named.advertised("::1", 5) == "me:99"
    assert named.replication_factor("status") == 3
    assert named.topic_configs("status") == {"min.insync.replicas": "2"}
    assert (plain.admin, named.admin) == (True, False)
    with pytest.raises(ConfigException, match="http or https"):
        _ = Settings({"listeners": "gopher://:8083"}).scheme
    Settings({"exactly.once.source.support": "Preparing"}).check()
    with pytest.raises(ConfigException, match="PREPARING, DISABLED, ENABLED"):
        Settings({"exactly.once.source.support": "yes"}).check()
    with pytest.raises(ConfigException, match="Not a number"):
        Settings({"session.timeout.ms": "soon"}).number("session.timeout.ms")
