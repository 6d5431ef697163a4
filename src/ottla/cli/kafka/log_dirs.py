"""kafka-log-dirs: what lies in the log directories of brokers."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from ottla.cli.kafka.exceptions import java_name
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin, LogDir
from ottla.errors import ErrorCode

NAME: Final = "kafka-log-dirs"
DESCRIPTION: Final = "This tool helps to query log directory usage on the specified brokers."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("describe", "Describe the log directories of brokers."),
    Option("topic-list", "Topics, divided by commas; all if there are none.", "topics"),
    Option("broker-list", "Ids of brokers, divided by commas; all if there are none.", "brokers"),
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
        present = sorted(each.id for each in admin.cluster().nodes)
        unknown = [each for each in wanted if each not in present]
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


def as_json(found: dict[int, list[LogDir]], topics: Collection[str]) -> str:
    """In the order of Kafka's own hash tables, where that is the same for every run."""
    brokers = [
        {"broker": broker, "logDirs": [_directory(each, topics) for each in directories]}
        for broker, directories in found.items()
    ]
    return json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"))


def _directory(directory: LogDir, topics: Collection[str]) -> dict[str, Any]:
    failed = directory.error_code != ErrorCode.NONE
    partitions = [
        {"partition": str(place), "size": size, "offsetLag": lag, "isFuture": future}
        for place, (size, lag, future) in sorted(directory.replicas.items())
        if not topics or place.topic in topics
    ]
    return {
        "partitions": partitions,
        "error": java_name(ErrorCode(directory.error_code)) if failed else None,
        "logDir": directory.path,
    }


def _listed(text: str | None) -> list[str]:
    return [each for each in (text or "").split(",") if each]


def _brokers(text: str | None) -> list[int]:
    try:
        return [int(each) for each in _listed(text)]
    except ValueError:
        raise ToolError(f"--broker-list {text}: expected ids of brokers, such as 0,1,2") from None


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


if __name__ == "__main__":
    sys.exit(main())
