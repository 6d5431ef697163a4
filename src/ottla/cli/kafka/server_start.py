"""kafka-server-start: [-daemon] server.properties [--override name=value]..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import ottla
from ottla.cli.kafka.daemon import start_daemon
from ottla.cli.kafka.started_server import broker_details, record_daemon, recorded_servers

NAME: Final = "kafka-server-start"
USAGE: Final = f"USAGE: {NAME} [-daemon] server.properties [--override property=value]*"


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 1
    if words[0] == "--version":
        print(ottla.__version__)
        return 0
    if words[0] in ("-daemon", "-name", "-loggc"):
        if words[0] == "-daemon":
            command = [sys.executable, "-m", "ottla.cli.kafka.server_start", *words[1:]]
            pid = start_daemon(command, "kafkaServer.out")
            record_daemon(NAME, pid, broker_details(words[1:]))
            return 0
        words = words[2 if words[0] == "-name" else 1 :]  # options of a JVM
    from ottla.cli.serve import serve as serve

    with recorded_servers(NAME, broker_details(words)):
        return serve(list(words), prog=NAME, file_required=True)


if __name__ == "__main__":
    sys.exit(main())
