"""kafka-cluster: the cluster's id, and brokers that will not come back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.subcommands import Parser
from ottla.cli.kafka.tool import (
    INTERRUPTED,
    ToolError,
    broken_pipe,
    explain,
    log_to_stderr,
    read_properties,
)
from ottla.client.admin import Admin
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-cluster"
DESCRIPTION: Final = "The Kafka cluster tool."
EXAMPLES: Final = """\
examples:
  kafka-cluster cluster-id --bootstrap-server localhost:9092
  kafka-cluster unregister --bootstrap-server localhost:9092 --id 3
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    log_to_stderr()
    try:
        work(_parser().parse(words))
        sys.stdout.flush()
        return 0
    except SystemExit as exit:
        return int(exit.code or 0)
    except (ToolError, KafkaError) as error:
        print(explain(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()


def work(given: argparse.Namespace) -> None:
    settings = dict(read_properties(given.config))
    bootstrap = given.bootstrap_server or settings.pop("bootstrap.servers", None)
    if bootstrap is None:
        raise ToolError("Please specify --bootstrap-server.")
    with Admin(str(bootstrap), settings=dict(settings)) as admin:
        if given.command == "cluster-id":
            print(f"Cluster ID: {admin.cluster().cluster_id}")
        else:
            unregister(admin, given.id)


def unregister(admin: Admin, broker_id: int) -> None:
    try:
        admin.unregister_broker(broker_id)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        print("The target cluster does not support the broker unregistration API.")
    else:
        print(f"Broker {broker_id} is no longer registered.")


def _parser() -> Parser:
    parser = Parser(
        prog=NAME,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    cluster_id = commands.add_parser(
        "cluster-id", help="Get information about the ID of a cluster."
    )
    unregister = commands.add_parser("unregister", help="Unregister a broker.")
    for each in (cluster_id, unregister):
        each.add_argument("-b", "--bootstrap-server", metavar="host:port", help="The broker(s).")
        each.add_argument(
            "-c", "--config", metavar="FILE", help="A file with settings of the client."
        )
    unregister.add_argument(
        "-i", "--id", type=int, required=True, help="The ID of the broker to unregister."
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
