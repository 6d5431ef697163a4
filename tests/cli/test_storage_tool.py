"""kafka-storage: ids, formatting and refusals; a broker uses the id that it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka import storage
from ottla.cli.kafka.storage import is_uuid
from ottla.client import Admin
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.ports import reserve_port

Run = Callable[..., Any]


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=7\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    return path


def cluster_of(tmp_path: Path) -> str:
    """The broker id that a broker finds in these directories."""
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        own = {"node.id": "7", "log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
        broker = BrokerProcess({**own, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}, port)
        broker.start()
        try:
            with Admin(f"127.0.0.1:{port}") as admin:
                assert "alice" in admin.users.describe()
                return admin.cluster().cluster_id
        finally:
            broker.stop()


def test_random_ids(run: Run) -> None:
    first, second = (run(storage.main, "random-uuid").out.strip() for _ in range(2))
    assert first != second
    assert is_uuid(first)
    assert not is_uuid("not one")


def test_a_broker_takes_the_id_of_its_formatted_directories(
    run: Run, properties: Path, tmp_path: Path
) -> None:
    cluster = run(storage.main, "random-uuid").out.strip()
    before = run(storage.main, "info", "--config", str(properties))
    assert before.out == (
        f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n"
    )
    assert before.code == 1
    words = ("format", "--config", str(properties), "--cluster-id", cluster)
    user = ("--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
    done = run(storage.main, *words, *user, "--release-version", "4.3")
    assert done.lines == [
        f"Formatting data directory {tmp_path}/a with metadata.version 4.3.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3.",
    ]
    found = run(storage.main, "info", "--config", str(properties))
    assert found.code == 0
    assert f"Found metadata: {{cluster.id={cluster}, directory.id=" in found.out
    assert "node.id=7, version=1}" in found.out
    assert cluster_of(tmp_path) == cluster
    assert cluster_of(tmp_path) == cluster


def test_formatted_directories_are_kept(run: Run, properties: Path) -> None:
    words = ("format", "--config", str(properties), "--cluster-id", "AAAAAAAAQACAAAAAAAAAAA")
    assert run(storage.main, *words).code == 0
    again = run(storage.main, *words)
    assert again.code == 1
    assert "is already formatted. Use --ignore-formatted" in again.err
    ignored = run(storage.main, *words, "--ignore-formatted")
    assert ignored.out == "All of the log directories are already formatted.\n"
    assert ignored.code == 0


def test_directories_of_two_clusters(run: Run, properties: Path, tmp_path: Path) -> None:
    for folder, cluster in (("a", "x"), ("b", "y")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "meta.properties").write_text(f"cluster.id={cluster}\nversion=1\n")
    done = run(storage.main, "info", "--config", str(properties))
    assert "Mismatched cluster IDs between storage directories." in done.out
    assert done.code == 1


def test_format_explains_its_refusals(run: Run, properties: Path) -> None:
    words = ("format", "--config", str(properties), "--cluster-id")
    quorum = run(storage.main, *words, "AAAAAAAAQACAAAAAAAAAAA", "--standalone")
    assert quorum.code == 0
    assert "no KRaft quorum: --standalone does nothing" in quorum.err
    assert "valid UUID" in run(storage.main, *words, "short").err
    feature = ("AAAAAAAAQACAAAAAAAAAAA", "--feature", "kraft.version=1")
    assert "kafka-features upgrade" in run(storage.main, *words, *feature).err
    scram = ("AAAAAAAAQACAAAAAAAAAAA", "-g", "--add-scram", "alice")
    assert "expected 'SCRAM-SHA-256=[name=" in run(storage.main, *words, *scram).err
    assert "metadata.version=" in run(storage.main, "version-mapping").out
