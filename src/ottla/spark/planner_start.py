"""Run by itself, in place of Python: a process that Spark wants is handed to one that is warm.

    python -I -S planner_start.py /path/of/python -m pyspark.daemon ...      what Spark wants
    python -I -S planner_start.py /path/of/python serve 1234 [connect]       the server for a JVM

Spark starts a Python process for each streaming query that reads from a source in Python, and one
for each kind of worker. Most of what such a process does at first is to import PySpark, Arrow and
pandas: a second of CPU. This file imports next to nothing. It asks the server of `planners.py` for
a process that has it all, gives it our environment and files, and stays for as long as that one
does, as Spark knows only us. Where there is no server, as for a JVM that is not of our starting, it
starts one for the next time, and becomes the Python that was asked for.
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
JVM = "OTTLA_SPARK_JVM"  # its number, for what is forked: it is not among the parents of that


def main() -> None:
    python, *words = sys.argv[1:]
    if words[0] == SERVE:
        start_server(python, int(words[1]), words[2:])
        return
    jvm = os.getppid()
    if not handed_over(address(jvm), words):
        start_server(python, jvm, [])
        os.execv(python, [python, *words])


def address(jvm: int) -> str:
    """Without a file: one server for each JVM, found by the JVM's process number."""
    return f"\0ottla-planners-{os.getuid()}-{jvm}"


def handed_over(name: str, words: list[str]) -> bool:
    """Whether another process did what we were asked for; it is over then.

    The server answers when it has imported everything. One that ends before that was of no use.
    """
    with socket.socket(socket.AF_UNIX) as line:
        if not _taken(line, name, words, [0, 1, 2], alone=False):
            return False
        with contextlib.suppress(OSError):
            line.recv(1)  # it sends nothing more, and ends
        return True


def left_alone(name: str, words: list[str], files: list[int]) -> bool:
    """Whether there is a process now that does it, and lives for as long as it likes, in a session
    of its own. `files` are its standard ones, and others, whose numbers it finds behind `words`."""
    with socket.socket(socket.AF_UNIX) as line:
        return _taken(line, name, words, files, alone=True)


def _taken(
    line: socket.socket, name: str, words: list[str], files: list[int], *, alone: bool
) -> bool:
    try:
        line.connect(name)
        if peer_user(line) != os.getuid():
            return False
        wish = {"words": words, "environment": dict(os.environ), "directory": os.getcwd()}
        body = json.dumps({**wish, "alone": alone}).encode()
        socket.send_fds(line, [SIZE.pack(len(body))], files)
        line.sendall(body)
        return line.recv(1) == TAKEN
    except OSError:
        return False


def peer_user(line: socket.socket) -> int:
    data = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    user: int = CREDENTIALS.unpack(data)[1]
    return user


def start_server(python: str, jvm: int, more: list[str]) -> None:
    """A grandchild, so that nobody has to wait for its end."""
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
    os.execv(python, [python, "-m", "ottla.spark.planners", str(jvm), *more])


if __name__ == "__main__":
    main()
