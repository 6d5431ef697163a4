"""ottla streams: jobs of streams, run on Spark and described."""

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

from ottla.cli.extras import need_spark
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.output import LOCALHOST, Bootstrap, CommandConfig

if TYPE_CHECKING:
    from rich.table import Table

    from ottla.streams.run.application import Application
    from ottla.streams.run.job import Job

LOOK_S: Final = 0.5

app = typer.Typer(
    help="""Jobs of streams: a Python file with a topology, run on Spark.

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
        str, typer.Option(help="The application's id; else what the job says, or its file's name.")
    ] = "",
    state_dir: Annotated[
        Path, typer.Option(help="Where the job keeps how far it is, and its state.")
    ] = Path("./streams-state"),
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
        typer.Option("--cleanup", help="Delete the job's state first: it is read from its topics."),
    ] = False,
) -> None:
    """Run a job until Ctrl-C; started again, it goes on where it was.

    [dim]ottla streams run counts.py
    ottla streams run counts.py -b kafka:9092 --application-id counts-2
    ottla streams run counts.py --master spark://host:7077 --config commit.interval.ms=500[/dim]
    """
    need_spark("ottla streams")
    with _starting():
        if not remote:
            from ottla.spark import session

            session.launch_ahead(master=master, java_options=session.FIRST_COMPILER)
        from ottla.streams.run.application import Application

        loaded = _load(job)
        settings = {
            **loaded.config,
            **read_properties(command_config),
            **dict(_setting(each) for each in config),
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
    need_spark("ottla streams")
    print(_load(job).topology.describe(), end="")


def _load(path: Path) -> Job:
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
    """A line on a terminal while Spark, the job and its topics are looked for. (No spinner: that
    would be a thread beside those who fork.)"""
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
    """Shows how it is until it ends, or somebody ends it."""
    from rich.console import Console
    from rich.live import Live

    from ottla.engine.failures import StreamsError
    from ottla.streams.run.application import OVER, ApplicationState

    console = Console(stderr=True)
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    if not console.is_terminal:
        _log()
    try:
        with _starting():
            application.start()
    except StreamsError as error:
        raise ToolError(str(error)) from None
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not asked.wait(LOOK_S) and application.state not in OVER:
                live.update(_shown(application), refresh=True)
    else:
        while not asked.wait(LOOK_S) and application.state not in OVER:
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
    for number, each in sorted(application.metrics().items()):
        cells: list[Any] = [
            number,
            each.state,
            f"{each.rows_per_second:,.0f}",
            f"{each.lag:,}",
            f"{each.batch_ms} ms",
            each.restarts,
            each.cause,
        ]
        table.add_row(*map(str, cells))
    return table


def _log() -> None:
    """What happens, line by line, where nobody watches a screen."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s"))
    for name in ("ottla.streams", "ottla.queries", "ottla.spark"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
