"""What a test needs: clusters in this process, disks that fail, cables that are pulled.

    from ottla.testing import LocalCluster

    with LocalCluster() as cluster:
        use(cluster.bootstrap_servers)

Names are looked up when asked for: the pytest plugin lives here too, and every pytest run of a
project that has Ottla installed imports this file.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs an import; checkers know this name as well
if TYPE_CHECKING:
    from ottla.testing.local_cluster import LocalCluster
    from ottla.testing.manual_clock import ManualClock
    from ottla.testing.memory_files import MemoryFiles
    from ottla.testing.network import Network

__all__ = ["LocalCluster", "ManualClock", "MemoryFiles", "Network"]

_HOMES = {
    "LocalCluster": "local_cluster",
    "ManualClock": "manual_clock",
    "MemoryFiles": "memory_files",
    "Network": "network",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"ottla.testing.{_HOMES[name]}"), name)
