"""A script that runs in place of Python and hands Spark's process to the fork server.

    python -I -S fork_server_start.py /path/of/python -m pyspark.daemon ...   Spark's command
    python -I -S fork_server_start.py /path/of/python serve 1234 [connect]    a server for a JVM

Spark starts a Python process for each streaming query with a Python source, and one for each kind
of worker. Such a process first imports PySpark, Arrow and pandas: a second of CPU. This script
imports next to nothing. It asks the fork server (fork_server.py) for a process with all imports,
passes it the environment and the standard files, and lives as long as that process, because Spark
knows only this one. Without a server, as for a JVM that something else started, it starts one for
the next time and becomes the requested Python process itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys

SIZE = struct.Struct(">I")
CREDENTIALS = struct.Struct("iII")  # of the peer: process, user, group
SERVE = "serve"
TAKEN = b"+"
JVM = "OTTLA_SPARK_JVM"  # the JVM's pid, for forked processes: it is not one of their ancestors


def main() -> None:
    python, *words = sys.argv[1:]
    if words[0] == SERVE:
        start_fork_server(python, int(words[1]), words[2:])
        return
    jvm = os.getppid()
    if not handed_over(address(jvm), words):
        start_fork_server(python, jvm, [])
        os.execv(python, [python, *words])


def address(jvm: int) -> str:
    """The abstract socket of the JVM's server, named after the JVM's pid."""
    return f"\0ottla-fork-server-{os.getuid()}-{jvm}"


def handed_over(name: str, words: list[str]) -> bool:
    """True if a forked process did the work; it has ended then.

    The server answers once it has imported everything. False if it exits before that.
    """
    with socket.socket(socket.AF_UNIX) as line:
        if not _taken(line, name, words, [0, 1, 2], alone=False):
            return False
        with contextlib.suppress(OSError):
            line.recv(1)  # returns when the process exits
        return True


def left_alone(name: str, words: list[str], files: list[int]) -> bool:
    """True if a detached process, in its own session, does the work. `files` are its standard files
    and further ones, whose descriptors are appended to `words`."""
    with socket.socket(socket.AF_UNIX) as line:
        return _taken(line, name, words, files, alone=True)


def _taken(
    line: socket.socket, name: str, words: list[str], files: list[int], *, alone: bool
) -> bool:
    try:
        line.connect(name)
        if peer_user(line) != os.getuid():
            return False
        request = {"words": words, "environment": dict(os.environ), "directory": os.getcwd()}
        body = json.dumps({**request, "alone": alone}).encode()
        socket.send_fds(line, [SIZE.pack(len(body))], files)
        line.sendall(body)
        return line.recv(1) == TAKEN
    except OSError:
        return False


def peer_user(line: socket.socket) -> int:
    data = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    user: int = CREDENTIALS.unpack(data)[1]
    return user


def start_fork_server(python: str, jvm: int, more: list[str]) -> None:
    """Starts the server as a grandchild, so that no process has to reap it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.execv(python, [python, "-m", "ottla.spark.fork_server", str(jvm), *more])


if __name__ == "__main__":
    main()
