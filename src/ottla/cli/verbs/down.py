"""ottla down: stops what `ottla up` has started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.local.bring_down import bring_down
from ottla.cli.local.stack import UP, stack_of
from ottla.cli.verbs.up import DATA

HELP: Final = """Stop what `ottla up` has started, in any terminal; the data stays.

Only processes that `ottla up` has recorded are stopped, each checked by its
pid and start time.

[dim]ottla down
ottla down --data ./ottla-data[/dim]
"""

Data = Annotated[
    Path | None,
    typer.Option(help="The data folder of `up`; default: the running one.", show_default=""),
]


def down(*, data: Data = None) -> None:
    bring_down(stack_of(UP, data, DATA))
