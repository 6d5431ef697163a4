"""kafka-delete-records: delete the records of partitions up to an offset."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

NAME: Final = "kafka-delete-records"
DESCRIPTION: Final = "This tool deletes the records of partitions below given offsets."
VERSION: Final = 1

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option(
        "offset-json-file",
        "REQUIRED: A file with an offset for each partition (-1: all records):\n"
        ' {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
        "file",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("bootstrap-server")
    path = options.require("offset-json-file")
    offsets = parse_offsets(_read(path))
    settings = read_properties(options.value("command-config"))
    with Admin(bootstrap, settings=dict(settings)) as admin:
        print("Executing records delete operation")
        results = admin.offsets.delete_before(offsets)
        print("Records delete operation completed:")
        for partition, low in results.items():
            if isinstance(low, KafkaError):
                print(f"partition: {partition}\terror: {describe(low)}")
            else:
                print(f"partition: {partition}\tlow_watermark: {low}")
    return 0


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    try:
        data = json.loads(text) if text.strip() else None
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None
    if not isinstance(data, dict):
        raise ToolError(f"Expected JSON object, received {text.strip()}")
    if data.get("version", VERSION) != VERSION:
        raise ToolError(f"Not supported version field value {data['version']}")
    if not isinstance(data.get("partitions"), list):
        raise ToolError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for entry in data["partitions"]:
        partition = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        if partition in offsets:
            twice.append(str(partition))
        offsets[partition] = _field(entry, "offset", int)
    if twice:
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return offsets


def _field(data: Any, name: str, kind: type) -> Any:
    if not isinstance(data, dict) or name not in data:
        raise ToolError(f"No such field exists: `{name}`")
    if not isinstance(data[name], kind) or isinstance(data[name], bool):
        raise ToolError(f"Expected `{kind.__name__}` value for `{name}`, received {data[name]}")
    return data[name]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ToolError(f"Unable to read file {path}") from None


if __name__ == "__main__":
    sys.exit(main())
