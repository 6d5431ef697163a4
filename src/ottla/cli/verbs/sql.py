"""ottla sql: the shell of the SQL."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.kafka.tool import ToolError

HELP = """SQL over topics: streams, tables, and queries that go on.

[dim]ottla sql --server http://localhost:8088      a shell at a server that runs
ottla sql -e "SHOW STREAMS;"                  one statement
ottla sql --file orders.sql
echo "SHOW TOPICS;" | ottla sql --output json[/dim]
"""

NEEDED: Final = ("sqlglot", "prompt_toolkit", "pyspark", "pyarrow")
"""Of the extra `spark`; looked for and not imported, so that this verb costs the others nothing."""


def sql(
    *,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            "-s",
            envvar="OTTLA_SQL_SERVER",
            help="The server.",
            metavar="URL",
        ),
    ] = None,
    execute: Annotated[
        str, typer.Option("--execute", "-e", help="Run this and leave.", metavar="SQL")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run this file and leave.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="tabular or json.")] = "tabular",
    define: Annotated[
        list[str], typer.Option("--define", "-d", help="A variable.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006
    property_: Annotated[
        list[str], typer.Option("--set", help="A property, as SET does.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006
) -> None:
    _check_extra()
    from ottla.spark.sql.shell.client import Client
    from ottla.spark.sql.shell.main import Wish, run
    from ottla.spark.sql.shell.places import history_file
    from ottla.spark.sql.shell.screen import Output

    if output.upper() not in list(Output):
        raise ToolError(f"--output {output}: tabular or json")
    if file is not None and not file.is_file():
        raise ToolError(f"--file {file}: there is no such file")
    wish = Wish(
        execute=execute,
        file=file,
        output=Output(output.upper()),
        properties=_pairs("--set", property_),
        variables=_pairs("--define", define),
        history=history_file(),
    )
    if not server:
        raise ToolError("--server URL: which SQL server? It can be set by OTTLA_SQL_SERVER, too")
    raise typer.Exit(run(lambda: Client(server), wish))


def _check_extra() -> None:
    missing = [each for each in NEEDED if find_spec(each) is None]
    if missing:
        raise ToolError(
            f"SQL runs on Spark, and {', '.join(missing)} is not installed here.\n"
            "      pip install 'ottla[spark]'"
        )


def _pairs(option: str, words: list[str]) -> dict[str, str]:
    pairs = {}
    for each in words:
        name, equals, value = each.partition("=")
        if not equals:
            raise ToolError(f"{option} {each}: expected NAME=VALUE")
        pairs[name] = value
    return pairs
