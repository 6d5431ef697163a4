"""connect-distributed: [-daemon] connect-distributed.properties"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.connect_worker import connect_worker_main

NAME: Final = "connect-distributed"
USAGE: Final = f"USAGE: {NAME} [-daemon] connect-distributed.properties"


def main(arguments: Sequence[str] | None = None) -> int:
    return connect_worker_main(
        NAME, USAGE, __name__, sys.argv[1:] if arguments is None else arguments
    )


if __name__ == "__main__":
    sys.exit(main())
