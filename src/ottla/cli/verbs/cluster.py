"""ottla cluster up: ZooKeeper and several brokers on this machine, for trying it out."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.cli.extras import need
from ottla.cli.kafka.tool import ToolError
from ottla.cli.output import console, print_table
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.zookeeper import ZooKeeperMissing, ZooKeeperServer

HOST: Final = "127.0.0.1"
BROKERS_MAX: Final = 16
LOOK_EVERY_S: Final = 0.2

app = typer.Typer(
    help="""A cluster on this machine, for trying it out.

[dim]ottla cluster up
ottla cluster up --brokers 5 --override num.partitions=6[/dim]
""",
    no_args_is_help=True,
)


@app.callback()
def cluster() -> None:
    """So that `up` stays a word of its own while it is the only one."""


@app.command("up")
def up(
    *,
    brokers: Annotated[
        int, typer.Option("--brokers", "-n", help="How many.", min=1, max=BROKERS_MAX)
    ] = 3,
    port: Annotated[
        int, typer.Option(help="The first broker's; the others have the next ones.")
    ] = 9092,
    zookeeper_port: Annotated[int, typer.Option(help="ZooKeeper's.")] = 2181,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="An ensemble that runs already.", metavar="HOST:PORT,.../CHROOT"),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Where everything is kept; the next `up` finds it there.")
    ] = Path("./cluster"),
    override: Annotated[
        list[str],
        typer.Option("--override", help="A property of every broker; may be given again."),
    ] = [],  # noqa: B006
) -> None:
    """Start ZooKeeper and brokers; Ctrl-C stops them, one after the other.

    Topics have three replicas, of which two must have a record before it is acknowledged.

    [dim]ottla cluster up
    ottla cluster up --brokers 5 --port 19092 --override num.partitions=3[/dim]
    """
    need("ottla cluster up", "zookeeper")
    given = dict(_property(text) for text in override)
    data = data.absolute()
    with _ended_by_signals(), ExitStack() as running:
        connect = zookeeper or _start_zookeeper(data / "zookeeper", zookeeper_port, running)
        started = _start_brokers(
            [_properties(each, brokers, port, connect, data, given) for each in range(brokers)],
            port,
            data,
            running,
        )
        _say_where(brokers, port, connect, data)
        _wait(started)


def _start_zookeeper(directory: Path, port: int, running: ExitStack) -> str:
    server = ZooKeeperServer(directory=directory, port=port, apart=True)
    running.callback(server.close)
    console().print(f"ZooKeeper on {server.connect} ...")
    try:
        server.start()
    except (ZooKeeperMissing, RuntimeError) as error:
        raise ToolError(str(error)) from error
    return f"{server.connect}/ottla"


def _start_brokers(
    properties: list[dict[str, str]], port: int, data: Path, running: ExitStack
) -> list[BrokerProcess]:
    """All at once; they are stopped one by one, so that each can hand over what it leads."""
    started: list[BrokerProcess] = []
    for number, each in enumerate(properties):
        log_path = data / f"broker-{number}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        broker = BrokerProcess(each, port + number, log_path=log_path, apart=True)
        broker.launch()
        running.callback(_stop, number, broker)
        started.append(broker)
    for number, broker in enumerate(started):
        console().print(f"broker {number} on {HOST}:{port + number} ...")
        try:
            broker.wait_until_it_answers()
        except RuntimeError as error:
            raise ToolError(str(error)) from error
    return started


def _stop(number: int, broker: BrokerProcess) -> None:
    if broker.exit_code is not None:
        return
    console().print(f"broker {number} stops ...")
    try:
        broker.stop()
    except RuntimeError as error:
        console().print(str(error), markup=False)


def _properties(
    number: int, count: int, port: int, connect: str, data: Path, given: dict[str, str]
) -> dict[str, str]:
    replicas = min(3, count)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(max(1, replicas - 1)),
        **given,
        "node.id": str(number),
        "listeners": f"PLAINTEXT://{HOST}:{port + number}",
        "log.dirs": str(data / f"broker-{number}"),
        "zookeeper.connect": connect,
    }


def _say_where(brokers: int, port: int, connect: str, data: Path) -> None:
    rows = [
        (each, f"{HOST}:{port + each}", data / f"broker-{each}", data / f"broker-{each}.log")
        for each in range(brokers)
    ]
    print_table(["broker", "listens on", "data", "log"], rows)
    servers = ",".join(f"{HOST}:{port + each}" for each in range(brokers))
    console().print(f"bootstrap servers  {servers}\nZooKeeper          {connect}")
    console().print("Ctrl-C stops them, one after the other.")


def _wait(started: list[BrokerProcess]) -> None:
    """Until somebody ends it. A broker that ends by itself is told of: the others go on."""
    alive = dict(enumerate(started))
    while alive:
        for number, broker in list(alive.items()):
            if broker.exit_code is not None:
                console().print(f"broker {number} has ended, with exit code {broker.exit_code}")
                del alive[number]
        time.sleep(LOOK_EVERY_S)
    raise ToolError("no broker runs any more; their logs say why")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM is as good as Ctrl-C, which is an ordinary end here; a second one changes nothing."""

    def end(*_: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        console().print("all stopped")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--override {text}: expected NAME=VALUE, such as num.partitions=3")
    return name.strip(), value.strip()
