"""ottla streams: runs and describes jobs of Ottla Streams."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.cli.console import LOCALHOST, Bootstrap, CommandConfig
from ottla.cli.extras import require_spark
from ottla.cli.kafka.tool import ToolError, read_properties

if TYPE_CHECKING:
    from rich.table import Table

    from ottla.streams.run.application import Application
    from ottla.streams.run.job import StreamsJob

LOOK_S: Final = 0.5

app = typer.Typer(
    help="""Streams jobs: Python files with a topology, run on Spark.

[dim]ottla streams describe sales.py
ottla streams run sales.py[/dim]
""",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

JobFile = Annotated[Path, typer.Argument(help="A Python file with a topology.", metavar="JOB.PY")]


@app.command("run")
def run(
    job: JobFile,
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    application_id: Annotated[
        str, typer.Option(help="The application id; default: the job's, or its file's name.")
    ] = "",
    state_dir: Annotated[Path, typer.Option(help="The directory of the job's state.")] = Path(
        "./streams-state"
    ),
    master: Annotated[
        str, typer.Option(help="Spark's master: local[*], spark://..., k8s://...")
    ] = "local[*]",
    remote: Annotated[str, typer.Option(help="A Spark Connect server: sc://host:15002.")] = "",
    config: Annotated[
        list[str],
        typer.Option("--config", help="A setting, by Kafka's name.", metavar="NAME=VALUE"),
    ] = [],  # noqa: B006  typer copies it
    reset: Annotated[
        bool,
        typer.Option("--cleanup", help="First delete local state, which is restored from topics."),
    ] = False,
) -> None:
    """Run a job until Ctrl-C; a restarted job resumes where it was.

    [dim]ottla streams run counts.py
    ottla streams run counts.py -b kafka:9092 --application-id counts-2
    ottla streams run counts.py --master spark://host:7077 --config commit.interval.ms=500[/dim]
    """
    require_spark("ottla streams")
    with _starting():
        if not remote:
            from ottla.spark import session

            session.launch_ahead(master=master, java_options=session.FIRST_COMPILER)
        from ottla.streams.run.application import Application

        loaded = _load(job)
        settings = {
            **loaded.config,
            **read_properties(command_config),
            **dict(_setting(pair) for pair in config),
        }
        application = Application(
            loaded.topology,
            application_id=application_id or loaded.application_id,
            bootstrap_servers=bootstrap_server,
            state_dir=state_dir,
            master=master,
            remote=remote or None,
            config=settings,
        )
        if reset:
            application.cleanup()
    raise typer.Exit(_follow(application))


@app.command("describe")
def describe(job: JobFile) -> None:
    """Print the topology of a job, as Kafka Streams does.

    [dim]ottla streams describe sales.py[/dim]
    """
    require_spark("ottla streams")
    print(_load(job).topology.describe(), end="")


def _load(path: Path) -> StreamsJob:
    from ottla.engine.graph import TopologyError
    from ottla.streams.run.job import JobError, load

    try:
        return load(path)
    except (JobError, TopologyError) as error:
        raise ToolError(str(error)) from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--config {text}: expected NAME=VALUE, such as commit.interval.ms=500")
    return name.strip(), value.strip()


@contextmanager
def _starting() -> Iterator[None]:
    """Show a line while Spark, the job and its topics start. (No spinner, because its thread would
    be a second one in a process that forks.)"""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write("starting")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def _follow(application: Application) -> int:
    """Show the application's state until it ends, or the user stops it."""
    from rich.console import Console
    from rich.live import Live

    from ottla.engine.failures import StreamsError
    from ottla.streams.run.application import OVER, ApplicationState

    console = Console(stderr=True)
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    if not console.is_terminal:
        _log()
    try:
        with _starting():
            application.start()
    except StreamsError as error:
        raise ToolError(str(error)) from None
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not stopping.wait(LOOK_S) and application.state not in OVER:
                live.update(_shown(application), refresh=True)
    else:
        while not stopping.wait(LOOK_S) and application.state not in OVER:
            pass
    application.close()
    if application.state is ApplicationState.ERROR:
        console.print(f"[red]ERROR[/red] {application.error}", highlight=False, soft_wrap=True)
        return 1
    return 0


def _shown(application: Application) -> Table:
    from rich.table import Table

    title = f"{application.application_id}: {application.state}"
    table = Table(title=title, title_justify="left", box=None, header_style="dim")
    for name in ("sub-topology", "state", "records/s", "lag", "batch", "restarts", ""):
        table.add_column(name, justify="left" if name in ("state", "") else "right")
    for number, metrics in sorted(application.metrics().items()):
        cells: list[Any] = [
            number,
            metrics.state,
            f"{metrics.rows_per_second:,.0f}",
            f"{metrics.lag:,}",
            f"{metrics.batch_ms} ms",
            metrics.restarts,
            metrics.cause,
        ]
        table.add_row(*map(str, cells))
    return table


def _log() -> None:
    """Log events line by line, where there is no terminal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s"))
    for name in ("ottla.streams", "ottla.queries", "ottla.spark"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
