"""`ottla <verb>`: every verb but `serve`, with typer and rich."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
import typer.core
import typer.main

from ottla.cli.console import fail
from ottla.cli.help import use_our_help
from ottla.cli.kafka.tool import INTERRUPTED, ToolError, broken_pipe, log_to_stderr
from ottla.errors import KafkaError

ORDER: Final = (
    "up",
    "down",
    "status",
    "doctor",
    "serve",
    "cluster",
    "topics",
    "produce",
    "consume",
    "groups",
    "transactions",
    "configs",
    "users",
    "acls",
    "certs",
    "registry",
    "schemas",
    "sql",
    "sql-server",
    "connect",
    "streams",
    "rest-users",
)

VERBS: Final = (*(verb for verb in ORDER if verb != "serve"), "bench", "dump-log")
_added: set[str] = set()
COMPLETE: Final = "_OTTLA_COMPLETE"
COMPLETED: Final = "_TYPER_COMPLETE_ARGS"  # zsh's and fish's

HELP = """Ottla: an event streaming platform that speaks Kafka's protocol.

[bold]ottla serve[/bold] starts a broker, [bold]ottla up[/bold] one with registry, SQL and Connect,
[bold]ottla cluster up[/bold] several brokers; the other verbs work with any Kafka cluster.

[dim]ottla serve --registry
ottla topics create orders --partitions 3
echo "one beer" | ottla produce orders
ottla consume orders --from beginning --exit[/dim]

Kafka's own tools are there too, under their own names: kafka-topics, kafka-console-producer,
kafka-avro-console-producer, kafka-consumer-groups, kafka-transactions and others.
"""


class Verbs(typer.core.TyperGroup):
    """The verbs in the order in which a newcomer needs them; typer puts groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [
            *(verb for verb in ORDER if verb in names),
            *(verb for verb in names if verb not in ORDER),
        ]


app = typer.Typer(
    cls=Verbs,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add_verbs(arguments: Sequence[str]) -> None:
    """Add the verb of this command line. All of them only for `ottla --help`: a short command would
    spend most of its time importing the others."""
    if COMPLETE in os.environ:  # shell completion: the command line is in this variable
        arguments = os.environ.get("COMP_WORDS", os.environ.get(COMPLETED, "")).split()[1:]
    wanted = arguments[:1] if arguments and arguments[0] in VERBS else VERBS
    for name in wanted:
        if name not in _added:
            _added.add(name)
            _add(name)


def _add(name: str) -> None:
    function = name.replace("-", "_")
    module = importlib.import_module(f"ottla.cli.verbs.{function}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name, help=module.HELP)(getattr(module, function))


def _version(wanted: bool) -> None:
    if wanted:
        import ottla

        print(f"ottla {ottla.__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options in front of a verb."""


@app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Start a broker: [bold]ottla serve --help[/bold] has its options."""
    from ottla.cli.serve import serve as serve_main

    raise typer.Exit(serve_main(list(context.args)))


def main(arguments: list[str]) -> int:
    log_to_stderr()
    add_verbs(arguments)
    command = typer.main.get_command(app)
    use_our_help(command)
    try:
        command(args=arguments, prog_name="ottla")
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
