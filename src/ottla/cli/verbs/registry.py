"""ottla registry: starts a schema registry for any Kafka cluster."""

from __future__ import annotations

import logging
import time
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.logging import RichHandler

from ottla.auth.audit import LOGGER as AUDIT
from ottla.cli.console import CommandConfig, print_line
from ottla.cli.extras import require_extra
from ottla.cli.kafka.tool import ToolError, read_properties

HELP: Final = """Start a schema registry: Confluent's REST API, with its state in topic _schemas.

Any number of them may serve one cluster: each answers every request.

[dim]# on 127.0.0.1:8081, with the broker on localhost:9092
ottla registry
ottla registry -b kafka:9092 --host 0.0.0.0 --port 8082
# with a properties file of Confluent's registry
ottla registry schema-registry.properties
ottla registry --override schema.compatibility.level=full
curl localhost:8081/subjects[/dim]
"""


def registry(
    properties: Annotated[
        str | None, typer.Argument(help="A properties file.", metavar="[registry.properties]")
    ] = None,
    *,
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", "-b", help="The brokers to connect to.")
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "",
    port: Annotated[
        int, typer.Option(help="The port: 8081; 0 for a free one.", show_default=False)
    ] = -1,
    command_config: CommandConfig = None,
    override: Annotated[
        list[str], typer.Option("--override", help="Set a property.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006  typer copies it
) -> None:
    require_extra("ottla registry", "registry")
    from dataclasses import replace

    from ottla.registry.settings import settings_of
    from ottla.rest.stop_event import stop_event

    started_at = time.perf_counter()
    config = dict(read_properties(properties)) | dict(_property(pair) for pair in override)
    if bootstrap_server:
        config["kafkastore.bootstrap.servers"] = bootstrap_server
    settings = settings_of(config, dict(read_properties(command_config)))
    settings = replace(
        settings, host=host or settings.host, port=settings.port if port < 0 else port
    )
    _log()
    stop = stop_event()
    try:
        server = settings.server()
    except OSError as error:
        said_why = f"{settings.host}:{settings.port}: {error.strerror}"
        raise ToolError(f"cannot listen on {said_why}") from None
    with server:
        took_ms = (time.perf_counter() - started_at) * 1000
        print_line(f"schema registry at {server.url} (started in {took_ms:.0f} ms)")
        stop.wait()


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--override {text}: expected NAME=VALUE")
    return name.strip(), value.strip()


def _log() -> None:
    handler = RichHandler(
        console=Console(stderr=True), show_path=False, markup=False, log_time_format="[%X]"
    )
    for name in ("ottla.registry", "ottla.rest", AUDIT):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
