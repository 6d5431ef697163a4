"""ottla bench: measures how fast a cluster takes and delivers records."""

from __future__ import annotations

import sys
import time
import uuid
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ottla.cli.console import LOCALHOST, AsJson, Bootstrap, CommandConfig, print_json, print_table
from ottla.cli.kafka.perf import MIB
from ottla.cli.kafka.producer_perf_test import LETTERS
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.client.bulk import BulkConsumer, BulkProducer

HELP = """Measure: produce records, consume them, and print the rates and latencies.

The load comes from one process through librdkafka; `make bench` compares with Apache Kafka.

[dim]ottla bench
ottla bench --records 1000000 --size 1000 --acks 1 --json
ottla bench --rate 10000                (latencies at a fixed rate)[/dim]
"""


def bench(
    *,
    records: Annotated[int, typer.Option(min=1, help="Number of records.")] = 200_000,
    size: Annotated[int, typer.Option(min=1, help="Bytes per record.")] = 100,
    partitions: Annotated[int, typer.Option(min=1)] = 1,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    rate: Annotated[float, typer.Option(help="Records per second; 0: as fast as possible.")] = 0,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4, zstd.")] = "none",
    topic: Annotated[
        str | None, typer.Option(help="An existing topic; default: a temporary one.")
    ] = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    settings: dict[str, Any] = dict(read_properties(command_config))
    name = topic or f"ottla-bench-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_server, settings=settings) as admin:
        if topic is None:
            admin.topics.create(name, partitions)
        settings |= {"acks": acks, "compression.type": compression, "linger.ms": 5}
        if acks not in ("all", "-1"):
            settings["enable.idempotence"] = False
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,} records"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        try:
            with progress:
                task = progress.add_task("produce", total=records)
                produced = _produce(
                    bootstrap_server, name, settings, records, size, rate, progress, task
                )
                task = progress.add_task("consume", total=records)
                consumed = _consume(bootstrap_server, name, settings, records, progress, task)
        finally:
            if topic is None:
                admin.topics.delete(name)
    _print([produced, consumed], as_json=as_json)


def _produce(
    bootstrap_server: str,
    topic: str,
    settings: dict[str, Any],
    records: int,
    size: int,
    rate: float,
    progress: Progress,
    task: TaskID,
) -> dict[str, float | str]:
    latencies: list[float] = []
    failures: list[Exception] = []

    def delivered(latency_ms: float, _: int, failure: Exception | None) -> None:
        if failure is None:
            latencies.append(latency_ms)
        else:
            failures.append(failure)

    producer = BulkProducer(bootstrap_server, delivered, settings=settings)
    value = (bytes(range(256)) * (size // 256 + 1))[:size].translate(LETTERS)
    started = time.perf_counter()
    for number in range(records):
        producer.send(topic, value)
        if rate:
            ahead_s = (number + 1) / rate - (time.perf_counter() - started)
            if ahead_s > 0.001:
                producer.wait(ahead_s)
        if number % 1000 == 0:
            progress.update(task, completed=number)
    producer.flush()
    elapsed_s = time.perf_counter() - started
    if failures:
        raise ToolError(f"{len(failures)} records were not delivered: {failures[0]}")
    latencies.sort()
    return {
        "what": "produce",
        "records": records,
        "records_per_second": records / elapsed_s,
        "mib_per_second": records * size / elapsed_s / MIB,
        "p50_ms": _at(latencies, 0.5),
        "p99_ms": _at(latencies, 0.99),
        "p999_ms": _at(latencies, 0.999),
    }


def _consume(
    bootstrap_server: str,
    topic: str,
    settings: dict[str, Any],
    records: int,
    progress: Progress,
    task: TaskID,
) -> dict[str, float | str]:
    names = ("acks", "compression.type", "linger.ms", "enable.idempotence")
    consumer_settings = {name: value for name, value in settings.items() if name not in names}
    consumer_settings |= {
        "group.id": f"ottla-bench-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
    }
    consumer_settings |= {"enable.auto.commit": False}
    consumer = BulkConsumer(bootstrap_server, [topic], settings=consumer_settings)
    count = size = 0
    started: float | None = None
    last = time.perf_counter()
    try:
        while count < records:
            fetched, bytes_fetched = consumer.fetch(0.2)
            now = time.perf_counter()
            if fetched:
                started = last if started is None else started
                count += fetched
                size += bytes_fetched
                progress.update(task, completed=count)
            elif now - last > 30:
                raise ToolError(f"only {count} of {records} records came back")
            last = now if fetched or started is None else last
        elapsed_s = time.perf_counter() - (started or last)
    finally:
        consumer.close()
    return {
        "what": "consume",
        "records": count,
        "records_per_second": count / elapsed_s,
        "mib_per_second": size / elapsed_s / MIB,
    }


def _print(rows: list[dict[str, float | str]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    columns = ["", ">records", ">records/s", ">MiB/s", ">p50 ms", ">p99 ms", ">p99.9 ms"]
    names = ("records", "records_per_second", "mib_per_second", "p50_ms", "p99_ms", "p999_ms")
    forms = (",.0f", ",.0f", ",.1f", ",.1f", ",.1f", ",.1f")
    shown = [
        (
            f"[cyan]{row['what']}[/]",
            *(
                format(float(row[name]), form) if name in row else ""
                for name, form in zip(names, forms, strict=True)
            ),
        )
        for row in rows
    ]
    print_table(columns, shown)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
