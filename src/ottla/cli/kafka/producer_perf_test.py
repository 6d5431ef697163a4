"""kafka-producer-perf-test: how fast records are produced."""

from __future__ import annotations

import argparse
import random
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.perf import Stats, print_metrics
from ottla.cli.kafka.tool import (
    INTERRUPTED,
    ToolError,
    broken_pipe,
    explain,
    log_to_stderr,
    read_properties,
)
from ottla.client.bulk import SILENCE_S_MAX, BulkProducer
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe
from ottla.errors import KafkaError

NAME: Final = "kafka-producer-perf-test"
DESCRIPTION: Final = (
    "Produce records as fast as possible, or at a rate, and print how fast that was. With a"
    " transactional id, or a transaction duration, in transactions."
)
TRANSACTION_MS: Final = 3000
LETTERS: Final = bytes(65 + each % 26 for each in range(256))
RANDOM_BYTES: Final = 4 * 1024 * 1024

Payload = Callable[[int], bytes]


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    log_to_stderr()
    parser = make_parser()
    if not words:
        parser.print_help()
        return 0
    try:
        return produce(check(parser, words))
    except SystemExit as exit:  # argparse's way out; Kafka's code for it is 1, its help's too
        return 0 if exit.code is None else 1
    except (ToolError, KafkaError) as error:
        print(explain(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, description=DESCRIPTION, allow_abbrev=False)
    add = parser.add_argument
    add("--bootstrap-server", help="broker(s) to connect to")
    add("--topic", required=True, help="the topic to produce to")
    add("--num-records", required=True, type=int, help="how many records")
    add("--throughput", required=True, type=float, help="records a second at most; -1: no limit")
    add("--command-property", nargs="+", action="extend", default=[], metavar="NAME=VALUE")
    add("--producer-props", nargs="+", action="extend", default=[], metavar="NAME=VALUE")
    add("--command-config", metavar="FILE", help="a file of producer settings")
    add("--producer.config", dest="producer_config", metavar="FILE", help="its old name")
    add("--print-metrics", action="store_true", help="print the producer's metrics at the end")
    add("--transactional-id")
    add("--transaction-duration-ms", type=int, help="how long each transaction takes")
    add("--warmup-records", type=int, default=0, help="how many to leave out of a second summary")
    add("--reporting-interval", type=int, default=5000, metavar="MS", help="between two reports")
    add("--payload-delimiter", default="\\n", help="what is between the payloads of a file")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, help="bytes of a record")
    payload.add_argument("--payload-file", help="a file of payloads, picked at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="numbers, counting up")
    return parser


def check(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    given = parser.parse_args(words)
    sources = (given.bootstrap_server, given.command_property, given.producer_props)
    if not any((*sources, given.command_config, given.producer_config)):
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props,"
            " --producer.config or --command-config must be specified."
        )
    if given.record_size is not None and given.record_size <= 0:
        parser.error("--record-size should be greater than zero.")
    if given.num_records <= 0:
        parser.error("--num-records should be greater than zero.")
    if given.warmup_records < 0:
        parser.error("--warmup-records should be greater than or equal to zero.")
    if given.warmup_records >= given.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in"
            " the test, --num-records."
        )
    if given.transaction_duration_ms is not None and given.transaction_duration_ms <= 0:
        parser.error("--transaction-duration-ms should be greater than zero.")
    return given


def produce(given: argparse.Namespace) -> int:
    settings = producer_settings(given)
    bootstrap = str(settings.pop("bootstrap.servers"))
    payload = payloads(given)
    probe(bootstrap, settings)
    if given.warmup_records:
        print(
            f"Warmup first {given.warmup_records} records. Steady state results will print after"
            " the complete test summary."
        )
    stats = Stats(given.num_records, given.reporting_interval)
    load = Load(given, stats)
    producer = BulkProducer(
        bootstrap, load.delivered, settings=settings, silence_s_max=silence_s(settings)
    )
    gone: KafkaError | None = None
    try:
        load.run(producer, payload, "transactional.id" in settings)
    except KafkaError as error:
        gone = error
        producer.give_up()
    print(stats.total())
    if load.steady is not None:
        print(load.steady.total("steady state records"))
    if given.print_metrics:
        print_metrics("producer-metrics", producer.metrics())
    if load.failures:
        why = gone or load.failure
        print(f"{load.failures} records were not delivered: {why}", file=sys.stderr)
    elif gone is not None:
        raise gone
    return 1 if load.failures else 0


def silence_s(settings: Mapping[str, Setting]) -> float:
    """How long no record may be delivered before the brokers are taken for gone."""
    asked = str(settings.get("delivery.timeout.ms", ""))
    return min(SILENCE_S_MAX, int(asked) / 1000) if asked.isdigit() else SILENCE_S_MAX


class Load:
    """Sends the records, at the rate that was asked for."""

    def __init__(self, given: argparse.Namespace, stats: Stats) -> None:
        self._given = given
        self._stats = stats
        self.steady: Stats | None = None
        self._delivered = 0
        self.failures = 0
        self.failure: Exception | None = None

    def delivered(self, latency_ms: float, size: int, failure: Exception | None) -> None:
        if failure is not None:
            self.failures += 1
            self.failure = failure
            return
        self._delivered += 1
        steady = self.steady is not None and self._delivered > self._given.warmup_records
        self._stats.add(latency_ms, size, quiet=steady)
        if steady and self.steady is not None:
            self.steady.add(latency_ms, size)

    def run(self, producer: BulkProducer, payload: Payload, transactional: bool) -> None:
        given = self._given
        duration_s = (given.transaction_duration_ms or TRANSACTION_MS) / 1000
        if transactional:
            producer.start_transactions()
            producer.begin()
        begun = started = time.monotonic()
        for number in range(given.num_records):
            if given.warmup_records and number == given.warmup_records:
                self._enter_steady_state()
            producer.send(given.topic, payload(number))
            now = time.monotonic()
            if transactional and now - begun >= duration_s:
                producer.commit()
                producer.begin()
                begun = now
            if given.throughput > 0:
                ahead_s = (number + 1) / given.throughput - (now - started)
                if ahead_s > 0.001:
                    producer.wait(ahead_s)
        if transactional:
            producer.commit()
        producer.flush()

    def _enter_steady_state(self) -> None:
        print("In steady state.")
        given = self._given
        self.steady = Stats(given.num_records - given.warmup_records, given.reporting_interval)


def producer_settings(given: argparse.Namespace) -> dict[str, Setting]:
    for old, new in (("producer_props", "command_property"), ("producer_config", "command_config")):
        if getattr(given, old):
            flags = old.replace("_props", "-props").replace("_config", ".config")
            print(
                f"Option --{flags} has been deprecated and will be removed in a future version."
                f" Use --{new.replace('_', '-')} instead."
            )
    settings: dict[str, Setting] = {
        "client.id": "perf-producer-client",
        **read_properties(given.command_config or given.producer_config),
    }
    for word in (*given.producer_props, *given.command_property):
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(f"Invalid property: {word}")
        settings[name] = value
    if given.bootstrap_server is not None:
        settings["bootstrap.servers"] = given.bootstrap_server
    if given.transactional_id is not None:
        settings["transactional.id"] = given.transactional_id
    elif given.transaction_duration_ms is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    if str(settings.get("acks", "all")) not in ("all", "-1"):
        settings.setdefault("enable.idempotence", False)
    if "bootstrap.servers" not in settings:
        raise ToolError("No bootstrap.servers among the settings")
    return settings


def payloads(given: argparse.Namespace) -> Payload:
    if given.payload_monotonic:
        return lambda number: str(number).encode()
    dice = random.Random(0)
    if given.payload_file is not None:
        listed = read_payloads(given.payload_file, given.payload_delimiter)
        return lambda number: dice.choice(listed)
    size: int = given.record_size
    letters = dice.randbytes(RANDOM_BYTES + size).translate(LETTERS)

    def cut(number: int) -> bytes:
        start = (number * 7919) % RANDOM_BYTES
        return letters[start : start + size]

    return cut


def read_payloads(path: str, delimiter: str) -> list[bytes]:
    print(f"Reading payloads from: {Path(path).absolute()}")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    if not text:
        raise ToolError("File does not exist or empty file provided.")
    found = text.split(delimiter.encode().decode("unicode_escape"))
    listed = [each.encode() for each in (found[:-1] if not found[-1] else found)]
    print(f"Number of records read: {len(listed)}")
    return listed


if __name__ == "__main__":
    sys.exit(main())
