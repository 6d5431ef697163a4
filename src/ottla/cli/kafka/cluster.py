"""kafka-cluster: the cluster's id, its brokers and their APIs, brokers that won't come back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.broker_api_versions import print_api_versions
from ottla.cli.kafka.subcommands import Parser, run_parsed
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-cluster"
DESCRIPTION: Final = "The Kafka cluster tool."
DEPRECATED: Final = (
    "Option --config has been deprecated and will be removed in a future version."
    " Use --command-config instead."
)
EXAMPLES: Final = """\
examples:
  kafka-cluster cluster-id --bootstrap-server localhost:9092
  kafka-cluster unregister --bootstrap-server localhost:9092 --id 3
  kafka-cluster list-endpoints --bootstrap-server localhost:9092
  kafka-cluster api-versions --bootstrap-server localhost:9092
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments)


def work(given: argparse.Namespace) -> None:
    if given.config is not None and given.command_config is not None:
        raise ToolError("--config and --command-config cannot be specified together.")
    if given.config is not None:
        print(DEPRECATED)
    settings = dict(read_properties(given.config or given.command_config))
    bootstrap = given.bootstrap_server or settings.pop("bootstrap.servers", None)
    if bootstrap is None:
        raise ToolError("Please specify --bootstrap-server.")
    with Admin(str(bootstrap), settings=dict(settings)) as admin:
        if given.command == "cluster-id":
            print(f"Cluster ID: {admin.cluster().cluster_id}")
        elif given.command == "unregister":
            unregister(admin, given.id)
        elif given.command == "list-endpoints":
            list_endpoints(admin)
        else:  # a broker that can't be asked has its line, and the others theirs
            print_api_versions(admin)


def unregister(admin: Admin, broker_id: int) -> None:
    try:
        admin.unregister_broker(broker_id)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        print("The target cluster does not support the broker unregistration API.")
    else:
        print(f"Broker {broker_id} is no longer registered.")


def list_endpoints(admin: Admin) -> None:
    nodes = admin.cluster().nodes
    host = max((len(each.host) for each in nodes), default=100)
    rack = max((len(each.rack) for each in nodes if each.rack), default=10)

    def line(*words: object) -> None:
        node_id, name, port, its_rack, state, kind = map(str, words)
        print(f"{node_id:<10} {name:<{host}} {port:<10} {its_rack:<{rack}} {state:<10} {kind:<15}")

    line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
    for each in nodes:
        state = "fenced" if each.fenced else "unfenced"
        line(each.id, each.host, each.port, each.rack or "null", state, "broker")


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
    endpoints = commands.add_parser("list-endpoints", help="List endpoints")
    versions = commands.add_parser(
        "api-versions", help="Get information about the api versions of the brokers."
    )
    for each in (cluster_id, unregister, endpoints, versions):
        each.add_argument("-b", "--bootstrap-server", metavar="host:port", help="The broker(s).")
        each.add_argument("--config", metavar="FILE", help="DEPRECATED: --command-config.")
        each.add_argument(
            "-c", "--command-config", metavar="FILE", help="A file with settings of the client."
        )
    endpoints.add_argument(
        "--include-fenced-brokers", action="store_true", help="Brokers that are fenced, too."
    )
    unregister.add_argument(
        "-i", "--id", type=int, required=True, help="The ID of the broker to unregister."
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
