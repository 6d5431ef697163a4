"""Which process opened a connection, by the port that it comes from (Linux: /proc)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

UNKNOWN = "somebody"


def opener_by_process(names: Callable[[], Mapping[int, str]]) -> Callable[[int], str]:
    """For a proxy through which several named processes come."""

    def opener(port: int) -> str:
        inode = _inode(port)
        for pid, name in names().items():
            if inode is not None and _holds(pid, inode):
                return name
        return UNKNOWN

    return opener


def _inode(port: int) -> str | None:
    """The socket whose own port this is; the proxy's end of the same connection has it as its
    remote one."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in lines:
                words = line.split()
                if words[1].endswith(wanted) and words[3] != "0A" and words[9] != "0":
                    return words[9]
    return None


def _holds(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}") == wanted:
                    return True
            except OSError:
                continue
    except OSError:
        return False
    return False
