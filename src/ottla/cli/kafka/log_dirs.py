"""kafka-log-dirs: the contents of brokers' log directories."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from ottla.cli.kafka.exceptions import exception_name
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin, LogDirDescription
from ottla.errors import ErrorCode

NAME: Final = "kafka-log-dirs"
DESCRIPTION: Final = "This tool helps to query log directory usage on the specified brokers."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("describe", "Describe the log directories of brokers."),
    Option("topic-list", "Topics, separated by commas; default: all.", "topics"),
    Option("broker-list", "Ids of brokers, separated by commas; default: all.", "brokers"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("bootstrap-server")
    if not options.has("describe"):
        raise UsageError('Missing required argument "[describe]"')
    topics = set(_listed(options.value("topic-list")))
    wanted = _brokers(options.value("broker-list"))
    settings = read_properties(options.value("command-config"))
    with Admin(bootstrap, settings=dict(settings)) as admin:
        present = sorted(node.id for node in admin.cluster().nodes)
        unknown = [broker for broker in wanted if broker not in present]
        if unknown:
            raise ToolError(
                "ERROR: The given brokers do not exist from --broker-list:"
                f" {_joined(unknown)}. Current existent brokers: {_joined(present)}"
            )
        chosen = sorted(set(wanted)) or present
        print("Querying brokers for log directories information")
        found = {broker: admin.log_dirs(broker) for broker in chosen}
        print(f"Received log directory information from brokers {_joined(chosen)}")
        print(as_json(found, topics))
    return 0


def as_json(found: dict[int, list[LogDirDescription]], topics: Collection[str]) -> str:
    """In the order of Kafka's hash tables, where that order is stable."""
    brokers = [
        {"broker": broker, "logDirs": [_directory(directory, topics) for directory in directories]}
        for broker, directories in found.items()
    ]
    return json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"))


def _directory(directory: LogDirDescription, topics: Collection[str]) -> dict[str, Any]:
    failed = directory.error_code != ErrorCode.NONE
    partitions = [
        {"partition": str(partition), "size": size, "offsetLag": lag, "isFuture": future}
        for partition, (size, lag, future) in sorted(directory.replicas.items())
        if not topics or partition.topic in topics
    ]
    return {
        "partitions": partitions,
        "error": exception_name(ErrorCode(directory.error_code)) if failed else None,
        "logDir": directory.path,
    }


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _brokers(text: str | None) -> list[int]:
    try:
        return [int(broker) for broker in _listed(text)]
    except ValueError:
        raise ToolError(f"--broker-list {text}: expected ids of brokers, such as 0,1,2") from None


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


if __name__ == "__main__":
    sys.exit(main())
