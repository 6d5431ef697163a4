"""ottla produce: sends records from the command line, a file or standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ottla.cli.console import LOCALHOST, AsJson, Bootstrap, CommandConfig
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.producer import FutureRecordMetadata, Producer
from ottla.client.protocol.probe import probe

HELP = """Send each VALUE, or each line of standard input, as a record.

[dim]ottla produce orders 'first' 'second'
ottla produce orders --key customer-7 '{"total": 12}'
ottla produce orders --key-separator : < lines.txt
ottla produce orders --from-json < records.jsonl   (key, value, headers, partition)[/dim]
"""

_DELIVERIES = ("at_least_once", "at_most_once")  # exactly_once needs a transactional id

Headers = Annotated[
    list[str], typer.Option("--header", "-H", help="A header.", metavar="NAME=VALUE")
]


def produce(
    topic: Annotated[str, typer.Argument(help="The topic to send to.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="Values; default: lines of standard input.")
    ] = None,
    *,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(help="The separator of key and value in a line.")
    ] = None,
    header: Headers = [],  # noqa: B006
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="The partition; default: by the key.")
    ] = None,
    from_json: Annotated[bool, typer.Option("--from-json", help="Lines are JSON objects.")] = False,
    delivery: Annotated[str, typer.Option(help="at_least_once or at_most_once.")] = "at_least_once",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4, zstd.")] = "none",
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    if delivery not in _DELIVERIES:
        words = " or ".join(_DELIVERIES)
        raise typer.BadParameter(f"--delivery is {words}, not {delivery!r}")
    settings = {**read_properties(command_config), "compression.type": compression}
    probe(bootstrap_server, settings)
    common = {
        "key": key,
        "headers": dict(_pair(pair) for pair in header),
        "partition": partition,
    }
    records = (
        ({**common, "value": value} for value in values)
        if values
        else _lines(common, key_separator=key_separator, as_json=from_json)
    )
    count = 0
    with Producer(
        bootstrap_server, key=str, value=str, delivery=delivery, settings=settings
    ) as producer:
        sendings: list[FutureRecordMetadata] = []
        for record in records:
            sendings.append(_send(producer, topic, record))
            count += 1
            if as_json:
                _print_delivered(sendings)
            elif len(sendings) >= 10_000:
                _wait(sendings)
        _wait(sendings)
    if not as_json and sys.stderr.isatty():
        plural = "" if count == 1 else "s"
        print(f"{count} record{plural} sent to {topic}", file=sys.stderr)


def _send(producer: Producer[str, str], topic: str, record: dict[str, Any]) -> FutureRecordMetadata:
    return producer.send(
        topic,
        record.get("value"),
        key=record.get("key"),
        partition=record.get("partition"),
        headers={name: _bytes(data) for name, data in (record.get("headers") or {}).items()},
        timestamp_ms=record.get("timestamp"),
    )


def _lines(
    common: dict[str, Any], *, key_separator: str | None, as_json: bool
) -> Iterator[dict[str, Any]]:
    prompt = sys.stdin.isatty()
    for number, line in enumerate(_typed() if prompt else sys.stdin, 1):
        text = line.rstrip("\n")
        if as_json:
            yield {**common, **_object(text, number)}
        elif key_separator is not None:
            key, found, value = text.partition(key_separator)
            if not found:
                raise ToolError(f"line {number} has no {key_separator!r}: {text}")
            yield {**common, "key": key, "value": value}
        else:
            yield {**common, "value": text}


def _typed() -> Iterator[str]:
    while True:
        try:
            yield input("> ")
        except EOFError:
            return


def _object(text: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ToolError(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ToolError(f"line {number} is not a JSON object: {text}")
    for name in ("key", "value"):
        if found.get(name) is not None and not isinstance(found[name], str):
            found[name] = json.dumps(found[name], ensure_ascii=False)
    return found


def _wait(sendings: list[FutureRecordMetadata]) -> None:
    for sending in sendings:
        sending.result()
    sendings.clear()


def _print_delivered(sendings: list[FutureRecordMetadata]) -> None:
    for sending in sendings:
        at = sending.result()
        found = {
            "topic": at.topic,
            "partition": at.partition,
            "offset": at.offset,
            "timestamp": at.timestamp_ms,
        }
        print(json.dumps(found), flush=True)
    sendings.clear()


def _bytes(data: object) -> bytes | None:
    return None if data is None else str(data).encode()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"--header {text}: expected NAME=VALUE")
    return name, value
