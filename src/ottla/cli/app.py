"""`ottla <verb>`: every verb but `serve`, with typer and rich."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer
import typer.core

from ottla.cli.kafka.tool import INTERRUPTED, ToolError, broken_pipe, log_to_stderr
from ottla.cli.output import fail
from ottla.cli.verbs import (
    bench,
    cluster,
    configs,
    connect,
    consume,
    dump_log,
    groups,
    produce,
    sql,
    sql_server,
    streams,
    topics,
    transactions,
)
from ottla.errors import KafkaError

ORDER: Final = (
    "serve",
    "cluster",
    "topics",
    "produce",
    "consume",
    "groups",
    "transactions",
    "configs",
    "sql",
    "sql-server",
    "connect",
    "streams",
)

HELP = """Ottla: an event streaming platform that speaks Kafka's protocol.

[bold]ottla serve[/bold] starts a broker, [bold]ottla cluster up[/bold] several of them; the other
verbs work with any Kafka cluster.

Kafka's own tools are there too, under their own names: kafka-topics, kafka-console-producer,
kafka-console-consumer, kafka-consumer-groups, kafka-transactions and others.
"""


class Verbs(typer.core.TyperGroup):
    """The verbs in the order of a newcomer's day; typer has groups of verbs behind all others."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [
            *(each for each in ORDER if each in names),
            *(each for each in names if each not in ORDER),
        ]


app = typer.Typer(
    cls=Verbs,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster.app, name="cluster")
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(transactions.app, name="transactions")
app.add_typer(configs.app, name="configs")
app.add_typer(connect.app, name="connect")
app.command("produce", help=produce.HELP)(produce.produce)
app.command("consume", help=consume.HELP)(consume.consume)
app.command("sql", help=sql.HELP)(sql.sql)
app.command("sql-server", help=sql_server.HELP)(sql_server.sql_server)
app.add_typer(streams.app, name="streams")
app.command("bench", help=bench.HELP)(bench.bench)
app.command("dump-log", help=dump_log.HELP)(dump_log.dump_log)


def _version(wanted: bool) -> None:
    if wanted:
        import ottla

        print(f"ottla {ottla.__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """What stands before a verb."""


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Start a broker: [bold]ottla serve --help[/bold] has its options."""
    from ottla.cli.serve import main as serve_main

    raise typer.Exit(serve_main(list(context.args)))


def main(arguments: list[str]) -> int:
    log_to_stderr()
    try:
        app(args=arguments, prog_name="ottla")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    except (KafkaError, ToolError) as error:
        fail(error)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()
    sys.stdout.flush()
    return 0
