"""kafka-broker-api-versions: the APIs and versions that the brokers of a cluster serve.

Kafka 4.4 has deprecated it for `kafka-cluster api-versions` (KIP-1220), which prints the same.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Options
from ottla.cli.kafka.tool import read_properties, run
from ottla.client.admin import Admin
from ottla.client.protocol.connection import Node
from ottla.errors import KafkaError
from ottla.wire.apis import APIS

NAME: Final = "kafka-broker-api-versions"
DESCRIPTION: Final = "This tool prints the versions of the APIs that brokers serve."
OPTIONS: Final = (BOOTSTRAP, COMMAND_CONFIG)

# APIs between controllers, which clients do not use.
CONTROLLERS_ONLY: Final = frozenset({52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("bootstrap-server")
    settings = read_properties(options.value("command-config"))
    with Admin(bootstrap, settings=dict(settings)) as admin:
        return 0 if print_api_versions(admin) else 1


def print_api_versions(admin: Admin) -> bool:
    """The APIs of each broker; False if one of them could not be reached."""
    failed = False
    for node in sorted(admin.cluster().nodes, key=lambda node: node.id):
        try:
            print(report(node, admin.api_versions(node.id)))
        except KafkaError as error:
            print(f"{title(node)} -> ERROR: {error}")
            failed = True
    return not failed


def title(node: Node) -> str:
    rack = node.rack or "null"
    fenced = str(node.fenced).lower()
    return f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: {fenced})"


def report(node: Node, versions: Mapping[int, tuple[int, int]]) -> str:
    lines = [line(key, versions.get(key)) for key in sorted(APIS) if key not in CONTROLLERS_ONLY]
    lines += [
        f"UNKNOWN({key}): {_range(*versions[key])}" for key in sorted(versions) if key not in APIS
    ]
    inner = ",\n\t".join(lines)
    return f"{title(node)} -> (\n\t{inner}\n)"


def line(key: int, served: tuple[int, int] | None) -> str:
    api = APIS[key]
    if served is None:
        return f"{api.name}({key}): UNSUPPORTED"
    usable = min(served[1], api.version_max)
    known = f"usable: {usable}" if usable >= max(served[0], api.version_min) else "unusable"
    return f"{api.name}({key}): {_range(*served)} [{known}]"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


if __name__ == "__main__":
    sys.exit(main())
