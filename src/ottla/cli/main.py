"""`ottla`: the verb decides what is imported, so that `ottla serve` starts at once."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["serve"]:
        from ottla.cli.serve import main as serve

        return serve(arguments[1:])
    from ottla.cli.app import main as app

    return app(arguments)
