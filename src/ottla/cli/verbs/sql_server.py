"""ottla sql-server: starts the SQL server, interactive or headless."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.logging import RichHandler

from ottla.cli.console import Bootstrap
from ottla.cli.kafka.tool import ToolError, read_properties

HELP: Final = """Start the SQL server: ksqlDB's language and REST API, on Spark.

It answers at once, and starts Spark in the background. Its statements are in a topic:
a restarted server resumes every query.

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
        int, typer.Option(help="The port: 8088; 0 for a free one.", show_default=False)
    ] = -1,
    queries_file: Annotated[
        Path | None,
        typer.Option("--queries-file", help="Headless: run the statements of this file."),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="The directory of the queries' state.")
    ] = None,
    service_id: Annotated[
        str, typer.Option(help="Servers with the same id form one service.")
    ] = "",
    master: Annotated[
        str, typer.Option(help="Spark's master: local[*], spark://..., k8s://...")
    ] = "",
    remote: Annotated[str, typer.Option(help="A Spark Connect server: not supported.")] = "",
    override: Annotated[
        list[str], typer.Option("--override", help="Set a property.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006  typer copies it
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
) -> None:
    from ottla.cli.extras import require_spark

    require_spark("ottla sql-server")
    from ottla.rows.errors import SqlError
    from ottla.sql.ksql_config import QUERIES_FILE, KsqlConfig, check_spark, listener
    from ottla.sql.server.server import run_server

    config = dict(read_properties(properties)) if properties else {}
    config |= dict(_property(pair) for pair in override)
    options = {
        "bootstrap.servers": bootstrap_server,
        "ksql.streams.state.dir": str(state_dir or ""),
        "ksql.service.id": service_id,
        "ottla.sql.spark.master": master,
        "ottla.sql.spark.remote": remote,
        QUERIES_FILE: str(queries_file or ""),
    }
    config |= {name: value for name, value in options.items() if value}
    settings = KsqlConfig(config)
    _log(verbose)
    try:
        check_spark(settings)
        there, at = listener(settings)
        file = settings.get(QUERIES_FILE)
        code = run_server(
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
    """Logs the events of queries on standard error; Spark has its own log."""
    handler = RichHandler(
        console=Console(stderr=True), show_path=False, markup=False, log_time_format="[%X]"
    )
    for name in ("ottla.sql", "ottla.queries", "ottla.spark", "ottla.rest", "ottla.client"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
