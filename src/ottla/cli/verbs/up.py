"""ottla up: starts broker, registry, SQL server and Connect worker on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from ottla.cli.console import LOCALHOST, Bootstrap, console
from ottla.cli.extras import require_extra
from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.health import broker_health
from ottla.cli.local.local_service import PORT_MAX, check_ports
from ottla.cli.local.stack import UP, Stack, relative_path
from ottla.cli.local.supervise import supervise
from ottla.cli.local.up_services import (
    BROKER,
    CONNECT,
    EXTRA_OF,
    NAMES,
    PORT_OPTIONS,
    REGISTRY,
    SQL,
    StackSpec,
    up_services,
)

DATA: Final = Path("./ottla-data")

HELP: Final = """Start broker, schema registry, SQL server and Connect worker on this machine.

Services whose extra is not installed are omitted. Ctrl-C stops all of them;
`ottla status` and `ottla down` work in any terminal. Data, state and logs are
in ./ottla-data.

[dim]ottla up
ottla up --only broker,registry
ottla up --detach
ottla up --port 19092 --override num.partitions=3
# SQL for a running cluster
ottla up --only sql -b kafka:9092[/dim]
"""


def up(
    *,
    only: Annotated[
        str, typer.Option(help=f"Which of {', '.join(NAMES)}.", metavar="NAME,...")
    ] = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when all are ready; they keep running.")
    ] = False,
    data: Annotated[
        Path, typer.Option(help="The data folder, which the next `up` uses again.")
    ] = DATA,
    port: Annotated[int, typer.Option(help="The broker's.", min=1, max=PORT_MAX)] = 9092,
    registry_port: Annotated[
        int, typer.Option(help="The schema registry's port.", min=1, max=PORT_MAX)
    ] = 8081,
    sql_port: Annotated[
        int, typer.Option(help="The SQL server's port.", min=1, max=PORT_MAX)
    ] = 8088,
    connect_port: Annotated[
        int, typer.Option(help="The Connect worker's port.", min=1, max=PORT_MAX)
    ] = 8083,
    override: Annotated[
        list[str],
        typer.Option(
            "--override", help="A property of the broker; repeatable.", metavar="NAME=VALUE"
        ),
    ] = [],  # noqa: B006  typer copies it
    bootstrap_server: Bootstrap = LOCALHOST,
) -> None:
    names = _chosen(only)
    ports = {BROKER: port, REGISTRY: registry_port, SQL: sql_port, CONNECT: connect_port}
    for pair in override:
        if "=" not in pair:
            raise ToolError(f"--override {pair}: expected NAME=VALUE, such as num.partitions=3")
    if BROKER not in names:
        _need_a_broker(bootstrap_server)
    spec = StackSpec(names, ports, data.absolute(), override, bootstrap_server)
    services = up_services(spec)
    stack = Stack(UP, spec.data)
    if not stack.is_alive:
        check_ports(services, lambda service: PORT_OPTIONS[service.name])

    def say_ready(took_s: float) -> None:
        _say_ready(spec, took_s, detach=detach)

    raise typer.Exit(supervise(stack, services, say_ready, detach=detach))


def _chosen(only: str) -> list[str]:
    """Requested services must be installed; by default, those that are installed."""
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in NAMES:
            raise ToolError(f"--only {name}: choose from {', '.join(NAMES)}")
        if name in EXTRA_OF:
            require_extra(f"ottla up --only {name}", EXTRA_OF[name])
    if wanted:
        return wanted
    missing = _missing()
    for extra, trouble in missing.items():
        left = ", ".join(name for name in NAMES if EXTRA_OF.get(name) == extra)
        console().print(f"[yellow]without {left}:[/] {escape(trouble)}")
    return [name for name in NAMES if EXTRA_OF.get(name) not in missing]


def _missing() -> dict[str, str]:
    """Extras that are not installed, and the remedy for each."""
    found = {}
    for extra in dict.fromkeys(EXTRA_OF.values()):
        try:
            require_extra("ottla up", extra)
        except ToolError as error:
            found[extra] = str(error)
    return found


def _need_a_broker(bootstrap_servers: str) -> None:
    trouble = ""
    for address in bootstrap_servers.split(","):
        health = broker_health(address.strip())
        if health.ready:
            return
        trouble = health.words
    raise ToolError(
        f"{trouble}\n      Without `broker` in --only, a cluster must run; -b gives its address."
    )


def _say_ready(spec: StackSpec, took_s: float, *, detach: bool) -> None:
    out = console()
    out.print(f"[bold green]Ready[/] in {took_s:.1f} s, with data in {relative_path(spec.data)}\n")
    hints = _hints(spec)
    width = max((len(command) for command, _ in hints), default=0)
    for command, what in hints:
        out.print(f"  [bold]{escape(command):<{width}}[/]  [dim]{what}[/]")
    if detach:
        out.print("\n`ottla down` stops them; `ottla status` shows them.")
    else:
        out.print("\nCtrl-C stops all of them; `ottla status` shows them in another terminal.")


def _hints(spec: StackSpec) -> list[tuple[str, str]]:
    """Commands to try next."""
    port = spec.ports[BROKER]
    at = "" if port == 9092 else f" -b localhost:{port}"
    hints = []
    if BROKER in spec.names:
        hints.append((f"ottla topics create orders{at}", "a topic"))
        hints.append((f"ottla produce orders 'one beer'{at}", "a record"))
    if REGISTRY in spec.names:
        url = f"http://localhost:{spec.ports[REGISTRY]}"
        hints.append((f"curl {url}/subjects", "schemas"))
    if SQL in spec.names:
        url = f"http://localhost:{spec.ports[SQL]}"
        hints.append((f"ottla sql --server {url}", "a prompt for SQL"))
    if CONNECT in spec.names:
        url = f"http://localhost:{spec.ports[CONNECT]}"
        hints.append((f"ottla connect plugins --url {url}", "connectors"))
    return hints
