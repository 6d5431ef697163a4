"""The cluster id of formatted log directories counts for their first start only."""

from __future__ import annotations

from pathlib import Path

from storage_kit import NOW

from ottla.storage.formatted import formatted_cluster_id
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore

META = "meta.properties"


def formatted(folder: Path, cluster_id: str) -> str:
    folder.mkdir()
    (folder / META).write_text(f"cluster.id={cluster_id}\nnode.id=1\nversion=1\n")
    return str(folder)


def test_a_formatted_directory_has_the_id(tmp_path: Path) -> None:
    one, two = formatted(tmp_path / "one", "abc"), formatted(tmp_path / "two", "abc")
    (tmp_path / "two" / "server.properties").write_text("node.id=1\n")
    assert formatted_cluster_id([one, two, str(tmp_path / "none")]) == "abc"
    assert formatted_cluster_id([one, formatted(tmp_path / "three", "xyz")]) is None
    assert formatted_cluster_id([str(tmp_path / "none")]) is None


def test_a_directory_that_a_broker_has_opened_has_none(tmp_path: Path) -> None:
    """Without partitions, too: a new ZooKeeper may be the wrong one."""
    directory = formatted(tmp_path / "one", "abc")
    store = LogStore.open((directory,), LogConfig(), NOW, node_id=1, cluster_id="abc")
    assert formatted_cluster_id([directory]) is None
    store.close(NOW)
    assert formatted_cluster_id([directory]) is None
    assert "cluster.id=abc" in (tmp_path / "one" / META).read_text()
    (tmp_path / "one" / ".lock").unlink()  # as in a copy without hidden files
    (tmp_path / "one" / ".kafka_cleanshutdown").unlink()
    assert formatted_cluster_id([directory]) is None


def test_a_directory_with_partitions_has_none(tmp_path: Path) -> None:
    directory = formatted(tmp_path / "one", "abc")
    (tmp_path / "one" / "t-0").mkdir()
    assert formatted_cluster_id([directory]) is None
