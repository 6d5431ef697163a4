"""kafka-server-stop: stops the brokers that kafka-server-start has started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import ottla
from ottla.cli.kafka.started_server import NODE_ID, ROLES, stop_main

NAME: Final = "kafka-server-stop"
START: Final = "kafka-server-start"
USAGE: Final = f"""\
USAGE: {NAME} [--node-id=ID] [--process-role=ROLE]

Sends SIGTERM (or $SIGNAL) to the brokers that {START} of this installation has started,
and returns at once. It ends nothing else: each broker is recorded with its pid and start time, and
no process is searched by a pattern. `ottla serve` is ended by Ctrl-C, `ottla up` by `ottla down`.

  --node-id=ID         only the broker with this node.id
  --process-role=ROLE  only brokers whose file has this process.roles

examples:
  {NAME}
  {NAME} --node-id=2
  SIGNAL=KILL {NAME}"""
OPTIONS: Final = {"--node-id": NODE_ID, "--process-role": ROLES}
BOTH: Final = (
    "When both node-id and process-role are provided, the value for node-id will take precedence"
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "-h" in words or "--help" in words:
        print(USAGE)
        return 0
    if "--version" in words:
        print(ottla.__version__)
        return 0
    wanted: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if option not in OPTIONS or not equals:
            print(f"{NAME}: {word} is not an option\n{USAGE}", file=sys.stderr)
            return 1
        wanted[OPTIONS[option]] = value
    if len(wanted) > 1:
        print(BOTH)
        del wanted[ROLES]
    return stop_main(NAME, START, wanted, kind="kafka")


if __name__ == "__main__":
    sys.exit(main())
