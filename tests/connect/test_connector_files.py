"""Connector files: properties, and JSON in two forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.connector_files import read_connector_file
from ottla.connect.errors import ConfigException
from ottla.connect.run.connector_status import TargetState
from ottla.connect.worker_config import WorkerConfig

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
            TargetState.PAUSED,
        ),
    ],
)
def test_every_form_of_a_connector_file(
    tmp_path: Path, file: str, text: str, target: TargetState | None
) -> None:
    path = tmp_path / file
    path.write_text(text)
    found = read_connector_file(path)
    assert (found.name, found.config, found.target) == ("lines", CONFIG, target)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("tasks.max=1", "a connector has a `name`"),
        ('{"name": "a", "config": {}, "initial_state": "flying"}', "initial_state flying"),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(ConfigException, match=words):
        read_connector_file(path)
    with pytest.raises(ConfigException, match="Can't read"):
        read_connector_file(tmp_path / "none")


def test_a_workers_settings() -> None:
    plain = WorkerConfig({})
    assert plain.listener == ("127.0.0.1", 8083)
    assert plain.advertised("127.0.0.1", 8083) == "127.0.0.1:8083"
    assert plain.replication_factor("config") is None
    named = WorkerConfig(
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
        _ = WorkerConfig({"listeners": "gopher://:8083"}).scheme
    WorkerConfig({"exactly.once.source.support": "Preparing"}).check()
    with pytest.raises(ConfigException, match="PREPARING, DISABLED, ENABLED"):
        WorkerConfig({"exactly.once.source.support": "yes"}).check()
    with pytest.raises(ConfigException, match="Not a number"):
        WorkerConfig({"session.timeout.ms": "soon"}).number("session.timeout.ms")
