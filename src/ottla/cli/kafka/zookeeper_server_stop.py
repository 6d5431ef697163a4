"""zookeeper-server-stop: stops the ZooKeeper servers that zookeeper-server-start has started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import ottla
from ottla.cli.kafka.started_server import stop_main

NAME: Final = "zookeeper-server-stop"
START: Final = "zookeeper-server-start"
USAGE: Final = f"""\
USAGE: {NAME}

Sends SIGTERM (or $SIGNAL) to the ZooKeeper servers that {START} of this
installation has started, and returns at once. It ends nothing else: each server is recorded with
its pid and start time, and no process is searched by a pattern.

examples:
  {NAME}
  SIGNAL=KILL {NAME}"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:
        print(ottla.__version__)
        return 0
    if words:
        known = words[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if known else sys.stderr)
        return 0 if known else 1
    return stop_main(NAME, START, {}, kind="zookeeper")


if __name__ == "__main__":
    sys.exit(main())
