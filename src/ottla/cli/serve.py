"""`ottla serve`: a broker in the foreground. Imports only what a broker needs."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ottla.extras import EXTRAS, missing_of, missing_words

if TYPE_CHECKING:
    from ottla.broker.process import StartRegistry
    from ottla.registry.server import RegistryServer

EXAMPLES = """\
examples:
  ottla serve                                        a broker on 127.0.0.1:9092, data in ./data
  ottla serve server.properties                      with Kafka's own properties file
  ottla serve --override listeners=PLAINTEXT://0.0.0.0:9092 --override num.partitions=3
  ottla serve --registry                             with a schema registry on 127.0.0.1:8081
"""


def serve(argv: list[str], *, prog: str = "ottla serve", file_required: bool = False) -> int:
    from ottla.broker.process import run_process
    from ottla.config import ConfigError, ServerConfig

    arguments = _parser(prog, file_required).parse_args(argv)
    if arguments.properties is not None and not Path(arguments.properties).is_file():
        print(f"{prog}: there is no file {arguments.properties}", file=sys.stderr)
        return 1
    overrides = dict(_property(text) for text in arguments.override)
    if arguments.properties is None:
        overrides.setdefault("log.dirs", "./data")
    try:
        config = ServerConfig.load(arguments.properties, overrides)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    missing = [] if arguments.registry is None else missing_of(EXTRAS["registry"])
    if missing:
        print(missing_words("`ottla serve --registry`", missing, "registry"), file=sys.stderr)
        return 1
    return run_process(config, beside=_registry(arguments.registry))


def _registry(properties: str | None) -> StartRegistry | None:
    """Starts the registry once the broker's address is known; None without --registry."""
    if properties is None:
        return None
    from ottla.cli.kafka.tool import read_properties

    def start(bootstrap_servers: str) -> RegistryServer:
        from ottla.registry.settings import settings_of

        config = dict(read_properties(properties or None))
        config["kafkastore.bootstrap.servers"] = bootstrap_servers
        server = settings_of(config, {}).server().start()
        logging.getLogger("ottla.registry").info("Schema registry at %s", server.url)
        return server

    return start


class _Parser(argparse.ArgumentParser):
    """Its errors show how a port or a property is given, which the other verbs have options for."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n\n{EXAMPLES}\n`{self.prog} --help` explains them.\n")


def _parser(prog: str, file_required: bool) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description="Start a broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "properties",
        nargs=None if file_required else "?",
        metavar="server.properties",
        help="a file of Kafka's broker properties",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a property; wins over the file; may be given again",
    )
    parser.add_argument(
        "--registry",
        nargs="?",
        const="",
        metavar="registry.properties",
        help="a schema registry in the same process, on 127.0.0.1:8081 or as its file says",
    )
    return parser


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        sys.exit(f"--override {text}: expected NAME=VALUE, such as num.partitions=3")
    return name.strip(), value.strip()
