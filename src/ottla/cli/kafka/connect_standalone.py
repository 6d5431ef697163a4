"""connect-standalone: [-daemon] connect-standalone.properties [connector1.properties ...]

A connector's file is a properties file or JSON, as in Kafka's own script.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.connect_worker import connect_worker_main

NAME: Final = "connect-standalone"
USAGE: Final = (
    f"USAGE: {NAME} [-daemon] connect-standalone.properties"
    " [connector1.properties connector2.json ...]"
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    return connect_worker_main(NAME, USAGE, __name__, words, alone=True)


if __name__ == "__main__":
    sys.exit(main())
