"""ottla cluster: ZooKeeper and several brokers on this machine, for trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.console import AsJson, console
from ottla.cli.extras import require_extra
from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.bring_down import bring_down
from ottla.cli.local.cluster_services import (
    ZOOKEEPER,
    ClusterSpec,
    broker_name,
    cluster_services,
)
from ottla.cli.local.health import Health
from ottla.cli.local.local_service import PORT_MAX, check_ports
from ottla.cli.local.run_records import RunRecord
from ottla.cli.local.stack import CLUSTER, ServiceFailure, Stack, relative_path, stack_of
from ottla.cli.local.stack_view import print_failure
from ottla.cli.local.status_view import print_status
from ottla.cli.local.supervise import supervise
from ottla.testing.zookeeper import ZooKeeperNotFound

BROKERS_MAX: Final = 16
DATA: Final = Path("./cluster")

app = typer.Typer(
    help="""A cluster on this machine, for trials.

[dim]ottla cluster up
ottla cluster up --brokers 5 --override num.partitions=6
# in another terminal
ottla cluster status
ottla cluster kill 2
ottla cluster restart 2
ottla cluster down[/dim]
""",
    no_args_is_help=True,
)

Data = Annotated[
    Path | None,
    typer.Option(help="The data folder of `up`; default: the running one.", show_default=""),
]
Broker = Annotated[
    str, typer.Argument(help="A broker's number, or zookeeper.", metavar="BROKER", show_default="")
]


@app.command("up")
def up(
    *,
    brokers: Annotated[
        int, typer.Option("--brokers", "-n", help="How many.", min=1, max=BROKERS_MAX)
    ] = 3,
    port: Annotated[
        int,
        typer.Option(
            help="The first broker's port; the others use the next ones.",
            min=1,
            max=PORT_MAX - BROKERS_MAX,
        ),
    ] = 9092,
    zookeeper_port: Annotated[int, typer.Option(help="ZooKeeper's.", min=1, max=PORT_MAX)] = 2181,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="A running ensemble.", metavar="HOST:PORT,.../CHROOT"),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="The data folder, which the next `up` uses again.")
    ] = DATA,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when all are ready; they keep running.")
    ] = False,
    override: Annotated[
        list[str],
        typer.Option(
            "--override", help="A property of every broker; repeatable.", metavar="NAME=VALUE"
        ),
    ] = [],  # noqa: B006
) -> None:
    """Start ZooKeeper and brokers; Ctrl-C stops them one by one.

    Topics have three replicas; two of them must have a record before it is acknowledged.

    [dim]ottla cluster up
    ottla cluster up --brokers 5 --port 19092 --override num.partitions=3
    ottla cluster up --detach[/dim]
    """
    require_extra("ottla cluster up", "zookeeper")
    properties = dict(_property(text) for text in override)
    spec = ClusterSpec(brokers, port, zookeeper_port, zookeeper, data.absolute(), properties)
    try:
        services = cluster_services(spec)
    except ZooKeeperNotFound as error:
        raise ToolError(str(error)) from error
    stack = Stack(CLUSTER, spec.data)
    if not stack.is_alive:
        check_ports(
            services,
            lambda service: "--zookeeper-port" if service.name == ZOOKEEPER else "--port",
        )

    def say_ready(took_s: float) -> None:
        _say_ready(spec, took_s, detach=detach)

    raise typer.Exit(supervise(stack, services, say_ready, detach=detach))


@app.command("status")
def status(*, data: Data = None, as_json: AsJson = False) -> None:
    """Show brokers and ZooKeeper; the exit code is 1 if one of them does not run.

    [dim]ottla cluster status
    ottla cluster status --json[/dim]
    """
    raise typer.Exit(print_status(stack_of(CLUSTER, data, DATA), as_json=as_json))


@app.command("kill")
def kill(broker: Broker, *, data: Data = None) -> None:
    """Kill a broker (SIGKILL), like a power cut.

    This only hits a process that `ottla cluster up` has recorded; its start time is checked, too.

    [dim]ottla cluster kill 2
    ottla cluster kill zookeeper[/dim]
    """
    killed = stack_of(CLUSTER, data, DATA).kill(_name(broker))
    console().print(f"{killed.name} was killed; `ottla cluster restart {broker}` starts it again")


@app.command("restart")
def restart(broker: Broker, *, data: Data = None) -> None:
    """Stop a broker if it runs, and start it again with the same data and address.

    [dim]ottla cluster restart 2
    ottla cluster restart zookeeper[/dim]
    """
    stack = stack_of(CLUSTER, data, DATA)
    name = _name(broker)

    def show(record: RunRecord, health: Health) -> None:
        if health.ready:
            out.print(f"{name} is ready on {record.address}, with pid {record.process.pid}")

    out = console()
    out.print(f"{name} restarts ...")
    try:
        stack.restart(name, show)
    except ServiceFailure as failure:
        print_failure(failure.record, failure.words)
        raise typer.Exit(1) from None


@app.command("down")
def down(*, data: Data = None) -> None:
    """Stop all of them, brokers one by one; the data stays.

    [dim]ottla cluster down
    ottla cluster down --data ./cluster[/dim]
    """
    bring_down(stack_of(CLUSTER, data, DATA))


def _name(broker: str) -> str:
    return broker_name(int(broker)) if broker.isdecimal() else broker


def _say_ready(spec: ClusterSpec, took_s: float, *, detach: bool) -> None:
    out = console()
    out.print(f"[bold green]Ready[/] in {took_s:.1f} s, with data in {relative_path(spec.data)}")
    out.print(f"bootstrap servers  {spec.bootstrap_servers}\nZooKeeper          {spec.connect}")
    if detach:
        out.print("`ottla cluster down` stops them one by one.")
    else:
        out.print("Ctrl-C stops them one by one.")


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--override {text}: expected NAME=VALUE, such as num.partitions=3")
    return name.strip(), value.strip()
