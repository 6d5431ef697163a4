"""zookeeper-server-start: [-daemon] zookeeper.properties

Finds a ZooKeeper (Java; Debian's package, or ZOOKEEPER_HOME) and runs it in the foreground with the
given file, like the script that Kafka used to have.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.daemon import start_daemon
from ottla.cli.kafka.started_server import record_daemon, record_server
from ottla.cli.local.process_identity import own_identity

NAME: Final = "zookeeper-server-start"
USAGE: Final = f"USAGE: {NAME} [-daemon] zookeeper.properties"
HEAP: Final = "-Xmx512M -Xms512M"
LOGGING: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"


def main(arguments: Sequence[str] | None = None) -> int:
    from ottla.testing.zookeeper import ZooKeeperNotFound, java_command

    words = sys.argv[1:] if arguments is None else list(arguments)
    daemon = words[:1] == ["-daemon"]
    files = words[1:] if daemon else words
    if len(files) != 1 or files[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 1
    if not os.path.exists(files[0]):
        print(f"{NAME}: {files[0]} is not there", file=sys.stderr)
        return 1
    options = [*shlex.split(os.environ.get("KAFKA_HEAP_OPTS", HEAP)), LOGGING]
    try:
        command = [*java_command(options), files[0]]
    except ZooKeeperNotFound as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    if daemon:
        record_daemon(NAME, start_daemon(command, "zookeeper.out"), {})
        return 0
    record_server(NAME, own_identity(), {})  # execv keeps pid and start time
    sys.stdout.flush()
    os.execv(command[0], command)  # signals go to ZooKeeper itself


if __name__ == "__main__":
    sys.exit(main())
