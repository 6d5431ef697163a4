"""ottla down: end what `ottla up` has started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.local.bring_down import bring_down
from ottla.cli.local.stack import UP, stack_of
from ottla.cli.verbs.up import DATA

HELP: Final = """End what `ottla up` has started, in any terminal; data stay.

Only processes that `ottla up` has recorded are ended, each checked by its
pid and start time.

[dim]ottla down
ottla down --data ./ottla-data[/dim]
"""

Data = Annotated[
    Path | None,
    typer.Option(help="The folder given to `up`; without it, the one that runs.", show_default=""),
]


def down(*, data: Data = None) -> None:
    bring_down(stack_of(UP, data, DATA))
