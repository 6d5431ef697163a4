"""ottla sql: the SQL shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.console import LOCALHOST, Bootstrap, CommandConfig
from ottla.cli.extras import require_spark
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.verbs.rest_login import USER_HELP, Config, RestLogin

if TYPE_CHECKING:
    from ottla.sql.shell.client import KsqlRestClient

HELP = """SQL over topics: streams, tables, and continuous queries.

[dim]ottla sql                                   a shell with its own server
ottla sql --server http://localhost:8088    a shell for a running server
ottla sql --server https://sql:8088 --user ann --config client.properties
ottla sql --master spark://host:7077        on a Spark cluster
ottla sql -e "SHOW STREAMS;"                one statement
ottla sql --file orders.sql
echo "SHOW TOPICS;" | ottla sql --output json
ottla sql test orders.sql                   tests of SQL, in milliseconds[/dim]
"""
TEST_HELP = """Tests of SQL: statements over given rows, without broker and Spark.

Each test begins without streams and tables. ASSERT VALUES and ASSERT NULL VALUES take the next
record of a stream or table; ASSERT STREAM and ASSERT TABLE compare definitions. The exit code is 1
if a test fails.

[dim]--@test: totals by customer
CREATE STREAM orders (id INT KEY, amount INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;
INSERT INTO orders (ROWTIME, id, amount) VALUES (10, 1, 5);
ASSERT VALUES totals (ROWTIME, id, total) VALUES (10, 1, 5);

ottla sql test orders.sql[/dim]
"""
app = typer.Typer(
    help=HELP, invoke_without_command=True, rich_markup_mode="rich", add_completion=False
)

User = Annotated[
    str,
    typer.Option(
        "--user", "-U", envvar="OTTLA_SQL_USER", help=USER_HELP, metavar="NAME[:PASSWORD]"
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        envvar="OTTLA_SQL_SERVER",
        help="A running server; default: one in this process.",
        metavar="URL",
    ),
]


@app.callback()
def sql(
    context: typer.Context,
    *,
    server: Server = None,
    execute: Annotated[
        str, typer.Option("--execute", "-e", help="Run this and exit.", metavar="SQL")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run this file and exit.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="tabular or json.")] = "tabular",
    define: Annotated[
        list[str], typer.Option("--define", "-d", help="A variable.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006
    property_: Annotated[
        list[str], typer.Option("--set", help="Set a property, as SET does.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006
    master: Annotated[
        str, typer.Option(help="Spark's master, for a server in this process.", metavar="URL")
    ] = "",
    remote: Annotated[str, typer.Option(help="A Spark Connect server: not supported.")] = "",
    user: User = "",
    config: Config = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    if context.invoked_subcommand is not None:
        return
    require_spark("ottla sql")
    from ottla.sql.shell.screen import OutputFormat
    from ottla.sql.shell.shell import ShellOptions, run_shell
    from ottla.sql.user_folder import user_folder

    if output.upper() not in list(OutputFormat):
        raise ToolError(f"--output {output}: tabular or json")
    _check_file(file)
    if server and (master or remote):
        raise ToolError("--server has its own Spark: omit --master and --remote")
    options = ShellOptions(
        execute=execute,
        file=file,
        output=OutputFormat(output.upper()),
        properties=_pairs("--set", property_),
        variables=_pairs("--define", define),
        history=user_folder() / "sql_history",
    )
    if server:
        raise typer.Exit(run_shell(_client_at(server, RestLogin(user, config)), options))
    from ottla.sql.shell.embedded_sql_server import EmbeddedSqlServer

    spark = {"ottla.sql.spark.master": master, "ottla.sql.spark.remote": remote}
    given = {name: value for name, value in spark.items() if value}
    settings = dict(read_properties(command_config)) | given
    with EmbeddedSqlServer(bootstrap_server, settings) as own:
        code = run_shell(own.connect, options)
        sys.stdout.flush()
    raise typer.Exit(code)


def _client_at(server: str, login_option: RestLogin) -> Callable[[], KsqlRestClient]:
    from ottla.sql.shell.client import KsqlRestClient

    bare, login, tls = login_option.at(server)
    header = login.header if login else ""
    return lambda: KsqlRestClient(bare, authorization=header, tls=tls)


def _check_file(file: Path | None) -> None:
    if file is not None and not file.is_file():
        raise ToolError(f"--file {file}: there is no such file")


@app.command("test", help=TEST_HELP)
def run_tests(
    files: Annotated[list[Path], typer.Argument(help="Files of SQL with ASSERT statements.")],
    *,
    only: Annotated[str, typer.Option(help="Only tests whose names contain this.")] = "",
) -> None:
    require_spark("ottla sql test")
    from ottla.sql.testing.report import run_files

    missing = [file for file in files if not file.is_file()]
    if missing:
        raise ToolError(f"{missing[0]}: there is no such file")
    raise typer.Exit(0 if run_files(files, print, only=only) else 1)


def _pairs(option: str, words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(f"{option} {word}: expected NAME=VALUE")
        pairs[name] = value
    return pairs
