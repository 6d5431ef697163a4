"""Test doubles and real servers: clusters in this process, failing disks, cut networks.

    from ottla.testing import LocalCluster

    with LocalCluster() as cluster:
        use(cluster.bootstrap_servers)

Names are imported lazily: the pytest plugin lives here too, and every pytest run of a project that
has Ottla installed imports this file.

    local_cluster.py   LocalCluster: brokers in a thread or in processes, with clients and topics
    memory_files.py    MemoryFiles: a file system that fails on demand, and loses power
    network.py         Network: TCP connections that can be cut, delayed and reset

ZooKeeper and PostgreSQL servers for tests are here as well. Only tests, benchmarks and the command
line import this room.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs time; type checkers know this name as well
if TYPE_CHECKING:
    from ottla.testing.local_cluster import LocalCluster
    from ottla.testing.manual_clock import ManualClock
    from ottla.testing.memory_files import MemoryFiles
    from ottla.testing.network import Network

__all__ = ["LocalCluster", "ManualClock", "MemoryFiles", "Network"]

_MODULES = {
    "LocalCluster": "local_cluster",
    "ManualClock": "manual_clock",
    "MemoryFiles": "memory_files",
    "Network": "network",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"ottla.testing.{_MODULES[name]}"), name)
