"""ottla sql-server: the SQL's REST server, interactive or headless."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.logging import RichHandler

from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.output import Bootstrap

HELP: Final = """Start the SQL server: ksqlDB's language and REST, on Spark.

It answers at once, and starts Spark behind that. Its statements live in a topic:
a server that is started again goes on with every query.

[dim]# on 127.0.0.1:8088, with the broker on localhost:9092
ottla sql-server
ottla sql-server -b kafka:9092 --host 0.0.0.0 --port 9088
ottla sql-server --override ksql.service.id=billing_
# with a properties file of ksqlDB
ottla sql-server ksql-server.properties
# headless: these statements and no others
ottla sql-server --queries-file pipeline.sql
curl -d '{"ksql": "SHOW STREAMS;"}' localhost:8088/ksql[/dim]
"""


def sql_server(
    properties: Annotated[
        str | None, typer.Argument(help="A properties file.", metavar="[ksql-server.properties]")
    ] = None,
    *,
    bootstrap_server: Bootstrap = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "",
    port: Annotated[
        int, typer.Option(help="The port; 0 for any that is free.", show_default=False)
    ] = -1,
    queries_file: Annotated[
        Path | None,
        typer.Option("--queries-file", help="Headless: run the statements of this file."),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Where queries keep how far they are.")
    ] = None,
    service_id: Annotated[str, typer.Option(help="Servers of one id are one service.")] = "",
    master: Annotated[
        str, typer.Option(help="Spark's master: local[*], spark://..., k8s://...")
    ] = "",
    remote: Annotated[
        str, typer.Option(help="A Spark Connect server: refused, with the reason.")
    ] = "",
    override: Annotated[
        list[str], typer.Option("--override", help="Set a property.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006  typer copies it
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
) -> None:
    from ottla.cli.extras import need_spark

    need_spark("ottla sql-server")
    from ottla.rows.errors import SqlError
    from ottla.sql.server.process import run
    from ottla.sql.settings import QUERIES_FILE, Settings, check_spark, listener

    told = dict(read_properties(properties)) if properties else {}
    told |= dict(_property(each) for each in override)
    given = {
        "bootstrap.servers": bootstrap_server,
        "ksql.streams.state.dir": str(state_dir or ""),
        "ksql.service.id": service_id,
        "ottla.sql.spark.master": master,
        "ottla.sql.spark.remote": remote,
        QUERIES_FILE: str(queries_file or ""),
    }
    told |= {name: value for name, value in given.items() if value}
    settings = Settings(told)
    _log(verbose)
    try:
        check_spark(settings)
        there, at = listener(settings)
        file = settings.get(QUERIES_FILE)
        code = run(
            settings,
            host=host or there,
            port=at if port < 0 else port,
            queries_file=Path(file) if file else None,
        )
    except SqlError as error:
        raise ToolError(str(error)) from None
    raise typer.Exit(code)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--override {text}: expected NAME=VALUE, such as ksql.service.id=mine_")
    return name.strip(), value.strip()


def _log(verbose: bool) -> None:
    """What happens to queries, on standard error; Spark's own log is its own."""
    handler = RichHandler(
        console=Console(stderr=True), show_path=False, markup=False, log_time_format="[%X]"
    )
    for name in ("ottla.sql", "ottla.queries", "ottla.spark", "ottla.rest", "ottla.client"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
