"""ottla up: broker, registry, SQL server and Connect worker on this machine, by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from ottla.cli.extras import need
from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.health import broker_health
from ottla.cli.local.local_service import check_port
from ottla.cli.local.stack import UP, Stack, shown
from ottla.cli.local.supervise import supervise
from ottla.cli.local.up_services import (
    BROKER,
    CONNECT,
    EXTRA_OF,
    NAMES,
    PORT_OPTIONS,
    REGISTRY,
    SQL,
    UpWish,
    up_services,
)
from ottla.cli.output import LOCALHOST, Bootstrap, console

DATA: Final = Path("./ottla-data")

HELP: Final = """Start broker, schema registry, SQL server and Connect worker on this machine.

What needs an extra that is not installed is left out. Ctrl-C ends all of
them; `ottla status` and `ottla down` work in any terminal. Data, state and
logs lie in ./ottla-data.

[dim]ottla up
ottla up --only broker,registry
ottla up --detach
ottla up --port 19092 --override num.partitions=3
# SQL on a cluster that runs already
ottla up --only sql -b kafka:9092[/dim]
"""


def up(
    *,
    only: Annotated[
        str, typer.Option(help=f"Which of {', '.join(NAMES)}.", metavar="NAME,...")
    ] = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when all are ready; they go on.")
    ] = False,
    data: Annotated[
        Path, typer.Option(help="Where everything is kept; the next `up` finds it there.")
    ] = DATA,
    port: Annotated[int, typer.Option(help="The broker's.")] = 9092,
    registry_port: Annotated[int, typer.Option(help="The schema registry's.")] = 8081,
    sql_port: Annotated[int, typer.Option(help="The SQL server's.")] = 8088,
    connect_port: Annotated[int, typer.Option(help="The Connect worker's.")] = 8083,
    override: Annotated[
        list[str],
        typer.Option(
            "--override", help="A property of the broker; may be given again.", metavar="NAME=VALUE"
        ),
    ] = [],  # noqa: B006  typer copies it
    bootstrap_server: Bootstrap = LOCALHOST,
) -> None:
    names = _chosen(only)
    ports = {BROKER: port, REGISTRY: registry_port, SQL: sql_port, CONNECT: connect_port}
    for each in override:
        if "=" not in each:
            raise ToolError(f"--override {each}: expected NAME=VALUE, such as num.partitions=3")
    if BROKER not in names:
        _need_a_broker(bootstrap_server)
    wish = UpWish(names, ports, data.absolute(), override, bootstrap_server)
    services = up_services(wish)
    stack = Stack(UP, wish.data)
    if not stack.is_alive:
        for service in services:
            check_port(service, PORT_OPTIONS[service.name])

    def say_ready(took_s: float) -> None:
        _say_ready(wish, took_s, detach=detach)

    raise typer.Exit(supervise(stack, services, say_ready, detach=detach))


def _chosen(only: str) -> list[str]:
    """What was asked for must be installed; of all, what is installed."""
    wanted = [each.strip() for each in only.split(",") if each.strip()]
    for each in wanted:
        if each not in NAMES:
            raise ToolError(f"--only {each}: there are {', '.join(NAMES)}")
        if each in EXTRA_OF:
            need(f"ottla up --only {each}", EXTRA_OF[each])
    if wanted:
        return wanted
    missing = _missing()
    for extra, trouble in missing.items():
        left = ", ".join(each for each in NAMES if EXTRA_OF.get(each) == extra)
        console().print(f"[yellow]without {left}:[/] {escape(trouble)}")
    return [each for each in NAMES if EXTRA_OF.get(each) not in missing]


def _missing() -> dict[str, str]:
    """Extras that are not installed, and what to do about each."""
    found = {}
    for extra in dict.fromkeys(EXTRA_OF.values()):
        try:
            need("ottla up", extra)
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
        f"{trouble}\n      Without `broker` in --only a cluster has to run; -b names its address."
    )


def _say_ready(wish: UpWish, took_s: float, *, detach: bool) -> None:
    out = console()
    out.print(f"[bold green]Ready[/] in {took_s:.1f} s, with data in {shown(wish.data)}\n")
    hints = _hints(wish)
    width = max((len(each) for each, _ in hints), default=0)
    for command, what in hints:
        out.print(f"  [bold]{escape(command):<{width}}[/]  [dim]{what}[/]")
    if detach:
        out.print("\n`ottla down` ends them; `ottla status` shows them.")
    else:
        out.print("\nCtrl-C ends all of them; `ottla status` shows them in another terminal.")


def _hints(wish: UpWish) -> list[tuple[str, str]]:
    """What to type next."""
    port = wish.ports[BROKER]
    at = "" if port == 9092 else f" -b localhost:{port}"
    hints = []
    if BROKER in wish.names:
        hints.append((f"ottla topics create orders{at}", "a topic"))
        hints.append((f"ottla produce orders 'one beer'{at}", "a record"))
    if REGISTRY in wish.names:
        url = f"http://localhost:{wish.ports[REGISTRY]}"
        hints.append((f"curl {url}/subjects", "schemas"))
    if SQL in wish.names:
        url = f"http://localhost:{wish.ports[SQL]}"
        hints.append((f"ottla sql --server {url}", "a prompt for SQL"))
    if CONNECT in wish.names:
        url = f"http://localhost:{wish.ports[CONNECT]}"
        hints.append((f"ottla connect plugins --url {url}", "connectors"))
    return hints
