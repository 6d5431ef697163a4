"""Command lines with a command in them: `tool --bootstrap-server x list --filter y`.

Kafka parses these with argparse4j: its sentences, exit code 1 for a wrong line and for --help too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import ottla
from ottla.cli.kafka.tool import (
    INTERRUPTED,
    KAFKA_VERSION,
    ToolError,
    broken_pipe,
    explain,
    log_to_stderr,
    read_properties,
)
from ottla.client.admin import Admin
from ottla.errors import KafkaError


@dataclass(slots=True, frozen=True)
class Flag:
    """`--name`, with what it wants: "String", "Integer" or "Long", as Java calls them."""

    name: str
    help: str
    kind: str = "String"
    required: bool = False


@dataclass(slots=True, frozen=True)
class Command:
    name: str
    help: str
    flags: Sequence[Flag]
    work: Callable[[Admin, argparse.Namespace], None]


class Parser(argparse.ArgumentParser):
    """argparse's, with argparse4j's manners."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {message}", file=sys.stderr)
        raise SystemExit(1)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        found, rest = self.parse_known_args(words)
        if rest:
            shown = " ".join(f"'{each}'" for each in rest)
            self.error(f"unrecognized arguments: {shown}")
        return found


def run_parsed(
    parser: Callable[[], Parser],
    work: Callable[[argparse.Namespace], None],
    arguments: Sequence[str] | None,
    *,
    help_code: int = 0,
) -> int:
    """Parse, work, and turn every way to fail into an exit code and a line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    log_to_stderr()
    try:
        work(parser().parse(words))
        sys.stdout.flush()
        return 0
    except SystemExit as exit:
        return int(exit.code or help_code)
    except (ToolError, KafkaError) as error:
        print(explain(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()


def run_command(
    name: str, description: str, commands: Sequence[Command], arguments: Sequence[str] | None
) -> int:
    """Admin's commands, one of which the first word after the options names."""

    def work(given: argparse.Namespace) -> None:
        parser = _parser(name, description, commands)
        if given.version:
            print(f"{KAFKA_VERSION}-ottla-{ottla.__version__}")
            return
        if not given.command:
            parser.error("too few arguments")
        if given.bootstrap_server is None:
            parser.error("argument --bootstrap-server is required")
        _work(parser, commands, given)

    # argparse4j ends with 1 after --help, too.
    return run_parsed(lambda: _parser(name, description, commands), work, arguments, help_code=1)


def _parser(name: str, description: str, commands: Sequence[Command]) -> Parser:
    listed = "\n".join(f"  {each.name:<26}{each.help}" for each in commands)
    parser = Parser(
        prog=f"{name}.sh",
        usage=f"{name}.sh [-h] [-v] [--command-config FILE] --bootstrap-server host:port"
        " COMMAND ...",
        description=description,
        epilog=f"commands:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    parser.add_argument(
        "--command-config", metavar="FILE", help="a file with settings of the client"
    )
    parser.add_argument("--bootstrap-server", metavar="host:port", help="the broker(s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _work(parser: Parser, commands: Sequence[Command], given: argparse.Namespace) -> None:
    word, *rest = given.command
    command = next((each for each in commands if each.name == word), None)
    if command is None:
        known = ", ".join(f"'{each.name}'" for each in commands)
        parser.error(f"invalid choice: '{word}' (choose from {known})")
    wanted = _options(parser.prog, command, rest)
    settings = read_properties(given.command_config)
    with Admin(given.bootstrap_server, settings=dict(settings)) as admin:
        command.work(admin, wanted)


def _options(prog: str, command: Command, words: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        prog=f"{prog} --bootstrap-server host:port {command.name}",
        description=command.help,
        allow_abbrev=False,
    )
    for flag in command.flags:
        parser.add_argument(
            f"--{flag.name}",
            help=flag.help,
            metavar=flag.name.upper().replace("-", "_"),
            type=str if flag.kind == "String" else _number(flag.kind),
        )
    found = parser.parse(words)
    for flag in command.flags:
        if flag.required and getattr(found, flag.name.replace("-", "_")) is None:
            parser.error(f"argument --{flag.name} is required")
    return found


def _number(kind: str) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            words = f"could not convert '{text}' to {kind} (For input string: \"{text}\")"
            raise argparse.ArgumentTypeError(words) from None

    return convert
