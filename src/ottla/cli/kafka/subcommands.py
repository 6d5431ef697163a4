"""Command lines with a subcommand: `tool --bootstrap-server x list --filter y`.

Kafka parses these with argparse4j: its messages, and exit code 1 for errors and for --help.
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
    """`--name`, with the type of its value: "String", "Integer" or "Long", as Java calls it."""

    name: str
    help: str
    kind: str = "String"
    required: bool = False


@dataclass(slots=True, frozen=True)
class Subcommand:
    name: str
    help: str
    flags: Sequence[Flag]
    work: Callable[[Admin, argparse.Namespace], None]


class SubcommandParser(argparse.ArgumentParser):
    """argparse with argparse4j's messages and exit codes."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {message}", file=sys.stderr)
        raise SystemExit(1)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        found, rest = self.parse_known_args(words)
        if rest:
            shown = " ".join(f"'{argument}'" for argument in rest)
            self.error(f"unrecognized arguments: {shown}")
        return found


def tool_parser(
    name: str, description: str, epilog: str, *, usage: str | None = None
) -> SubcommandParser:
    return SubcommandParser(
        prog=name,
        usage=usage,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_client_options(parser: SubcommandParser) -> None:
    parser.add_argument("--bootstrap-server", metavar="host:port", help="The brokers.")
    parser.add_argument("--command-config", metavar="FILE", help="A file with client settings.")


def run_parsed(
    parser: Callable[[], SubcommandParser],
    work: Callable[[argparse.Namespace], None],
    arguments: Sequence[str] | None,
    *,
    help_code: int = 0,
    help_without_arguments: bool = False,
) -> int:
    """Parse, work, and turn every failure into an exit code and a line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if help_without_arguments and not words:
        parser().print_help()
        return 0
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
    name: str, description: str, commands: Sequence[Subcommand], arguments: Sequence[str] | None
) -> int:
    """Run the subcommand that the first word after the options names."""

    def work(args: argparse.Namespace) -> None:
        parser = _parser(name, description, commands)
        if args.version:
            print(f"{KAFKA_VERSION}-ottla-{ottla.__version__}")
            return
        if not args.command:
            parser.error("too few arguments")
        if args.bootstrap_server is None:
            parser.error("argument --bootstrap-server is required")
        _work(parser, commands, args)

    # argparse4j exits with 1 after --help, too.
    return run_parsed(lambda: _parser(name, description, commands), work, arguments, help_code=1)


def _parser(name: str, description: str, commands: Sequence[Subcommand]) -> SubcommandParser:
    listed = "\n".join(f"  {command.name:<26}{command.help}" for command in commands)
    usage = f"{name}.sh [-h] [-v] [--command-config FILE] --bootstrap-server host:port COMMAND ..."
    parser = tool_parser(f"{name}.sh", description, f"commands:\n{listed}", usage=usage)
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    parser.add_argument("--command-config", metavar="FILE", help="a file with client settings")
    parser.add_argument("--bootstrap-server", metavar="host:port", help="the brokers")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _work(
    parser: SubcommandParser, commands: Sequence[Subcommand], args: argparse.Namespace
) -> None:
    word, *rest = args.command
    command = next(
        (known_command for known_command in commands if known_command.name == word), None
    )
    if command is None:
        known = ", ".join(f"'{known_command.name}'" for known_command in commands)
        parser.error(f"invalid choice: '{word}' (choose from {known})")
    wanted = _options(parser.prog, command, rest)
    settings = read_properties(args.command_config)
    with Admin(args.bootstrap_server, settings=dict(settings)) as admin:
        command.work(admin, wanted)


def _options(prog: str, command: Subcommand, words: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(
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
