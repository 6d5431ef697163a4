"""kafka-cluster: the cluster id, endpoints and APIs of brokers, and unregistering dead brokers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.broker_api_versions import print_api_versions
from ottla.cli.kafka.subcommands import SubcommandParser, run_parsed, tool_parser
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


def work(args: argparse.Namespace) -> None:
    if args.config is not None and args.command_config is not None:
        raise ToolError("--config and --command-config cannot be specified together.")
    if args.config is not None:
        print(DEPRECATED)
    settings = dict(read_properties(args.config or args.command_config))
    bootstrap = args.bootstrap_server or settings.pop("bootstrap.servers", None)
    if bootstrap is None:
        raise ToolError("Please specify --bootstrap-server.")
    with Admin(str(bootstrap), settings=dict(settings)) as admin:
        if args.command == "cluster-id":
            print(f"Cluster ID: {admin.cluster().cluster_id}")
        elif args.command == "unregister":
            unregister(admin, args.id)
        elif args.command == "list-endpoints":
            list_endpoints(admin)
        else:  # an unreachable broker gets an error line
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
    host = max((len(node.host) for node in nodes), default=100)
    rack = max((len(node.rack) for node in nodes if node.rack), default=10)

    def line(*words: object) -> None:
        node_id, name, port, its_rack, state, kind = map(str, words)
        print(f"{node_id:<10} {name:<{host}} {port:<10} {its_rack:<{rack}} {state:<10} {kind:<15}")

    line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
    for node in nodes:
        state = "fenced" if node.fenced else "unfenced"
        line(node.id, node.host, node.port, node.rack or "null", state, "broker")


def _parser() -> SubcommandParser:
    parser = tool_parser(NAME, DESCRIPTION, EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    cluster_id = commands.add_parser(
        "cluster-id", help="Get information about the ID of a cluster."
    )
    unregister = commands.add_parser("unregister", help="Unregister a broker.")
    endpoints = commands.add_parser("list-endpoints", help="List endpoints")
    versions = commands.add_parser(
        "api-versions", help="Get information about the api versions of the brokers."
    )
    for subparser in (cluster_id, unregister, endpoints, versions):
        subparser.add_argument("-b", "--bootstrap-server", metavar="host:port", help="The brokers.")
        subparser.add_argument("--config", metavar="FILE", help="DEPRECATED: --command-config.")
        subparser.add_argument(
            "-c", "--command-config", metavar="FILE", help="A file with client settings."
        )
    endpoints.add_argument(
        "--include-fenced-brokers", action="store_true", help="Include fenced brokers."
    )
    unregister.add_argument(
        "-i", "--id", type=int, required=True, help="The ID of the broker to unregister."
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
