"""kafka-server-start: [-daemon] server.properties [--override name=value]..."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import ottla

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
            return start_daemon(words[1:])
        words = words[2 if words[0] == "-name" else 1 :]  # of a JVM, and without meaning here
    from ottla.cli.serve import main as serve

    return serve(list(words), prog=NAME, file_required=True)


def start_daemon(words: Sequence[str]) -> int:
    """In the background, with its output in $LOG_DIR/kafkaServer.out, as Kafka's script does it."""
    folder = Path(os.environ.get("LOG_DIR", "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ottla.cli.kafka.server_start", *words]
    with (folder / "kafkaServer.out").open("ab") as out:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
