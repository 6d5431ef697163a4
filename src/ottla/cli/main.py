"""`ottla`: imports only what the verb needs, so that `ottla serve` starts at once."""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["serve"]:
        from ottla.cli.serve import serve as serve

        return serve(arguments[1:])
    try:
        from ottla.cli.app import main as app

        return app(arguments)
    except KeyboardInterrupt:  # while modules are imported, which takes a while on a busy machine
        return INTERRUPTED
