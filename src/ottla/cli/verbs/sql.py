"""ottla sql: the shell of the SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.extras import need_spark
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.output import LOCALHOST, Bootstrap, CommandConfig
from ottla.cli.verbs.rest_login import USER_HELP, Config, RestLogin

HELP = """SQL over topics: streams, tables, and queries that go on.

[dim]ottla sql                                   a shell and its own server
ottla sql --server http://localhost:8088    a shell at a server that runs
ottla sql --server https://sql:8088 --user ann --config client.properties
ottla sql --master spark://host:7077        on a Spark cluster
ottla sql -e "SHOW STREAMS;"                one statement
ottla sql --file orders.sql
echo "SHOW TOPICS;" | ottla sql --output json[/dim]
"""

User = Annotated[
    str,
    typer.Option(
        "--user", "-U", envvar="OTTLA_SQL_USER", help=USER_HELP, metavar="NAME[:PASSWORD]"
    ),
]


def sql(
    *,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            "-s",
            envvar="OTTLA_SQL_SERVER",
            help="A server that runs; none: one in this process.",
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
    master: Annotated[
        str, typer.Option(help="Spark's master, of a server in this process.", metavar="URL")
    ] = "",
    remote: Annotated[
        str, typer.Option(help="A Spark Connect server: refused, with the reason.")
    ] = "",
    user: User = "",
    config: Config = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    need_spark("ottla sql")
    from ottla.spark.sql.shell.client import Client
    from ottla.spark.sql.shell.main import Wish, run
    from ottla.spark.sql.shell.places import history_file
    from ottla.spark.sql.shell.screen import Output

    if output.upper() not in list(Output):
        raise ToolError(f"--output {output}: tabular or json")
    if file is not None and not file.is_file():
        raise ToolError(f"--file {file}: there is no such file")
    if server and (master or remote):
        raise ToolError("--server has its Spark already: leave out --master and --remote")
    wish = Wish(
        execute=execute,
        file=file,
        output=Output(output.upper()),
        properties=_pairs("--set", property_),
        variables=_pairs("--define", define),
        history=history_file(),
    )
    if server:
        bare, login, tls = RestLogin(user, config).at(server)
        header = login.header if login else ""
        raise typer.Exit(run(lambda: Client(bare, authorization=header, tls=tls), wish))
    from ottla.spark.sql.shell.own import OwnServer

    spark = {"ottla.sql.spark.master": master, "ottla.sql.spark.remote": remote}
    settings = dict(read_properties(command_config))
    settings |= {name: value for name, value in spark.items() if value}
    with OwnServer(bootstrap_server, settings) as own:
        code = run(own.connect, wish)
        sys.stdout.flush()
    raise typer.Exit(code)


def _pairs(option: str, words: list[str]) -> dict[str, str]:
    pairs = {}
    for each in words:
        name, equals, value = each.partition("=")
        if not equals:
            raise ToolError(f"{option} {each}: expected NAME=VALUE")
        pairs[name] = value
    return pairs
