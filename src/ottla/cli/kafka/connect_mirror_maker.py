"""connect-mirror-maker: [-daemon] [--clusters CLUSTER ...] mm2.properties"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.connect_worker import start_script
from ottla.cli.kafka.tool import read_properties

NAME: Final = "connect-mirror-maker"
USAGE: Final = f"USAGE: {NAME} [-daemon] [--clusters CLUSTER [CLUSTER ...]] mm2.properties"


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work(rest: list[str]) -> int:
        from ottla.connect.mirror_maker import run_mirror_maker

        *before, file = rest
        near = before[1:] if before[:1] == ["--clusters"] else []
        return run_mirror_maker(read_properties(file), near)

    return start_script(NAME, USAGE, __name__, words, work)


if __name__ == "__main__":
    sys.exit(main())
