"""ottla status: shows what `ottla up` has started."""

from __future__ import annotations

from typing import Final

import typer

from ottla.cli.console import AsJson
from ottla.cli.local.stack import UP, stack_of
from ottla.cli.local.status_view import print_status
from ottla.cli.verbs.down import Data
from ottla.cli.verbs.up import DATA

HELP: Final = """Show what `ottla up` has started: addresses, state, memory, logs.

The exit code is 1 if something does not run or does not answer.

[dim]ottla status
ottla status --json[/dim]
"""


def status(*, data: Data = None, as_json: AsJson = False) -> None:
    raise typer.Exit(print_status(stack_of(UP, data, DATA), as_json=as_json))
