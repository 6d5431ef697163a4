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

from ottla.cli.kafka.perf import PerfStats, print_metrics
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
LETTERS: Final = bytes(65 + byte % 26 for byte in range(256))
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
    except SystemExit as exit:  # argparse exits; Kafka's exit code is 1, also for its help
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
    add("--bootstrap-server", help="the brokers to connect to")
    add("--topic", required=True, help="the topic to produce to")
    add("--num-records", required=True, type=int, help="number of records")
    add("--throughput", required=True, type=float, help="maximum records per second; -1: no limit")
    add("--command-property", nargs="+", action="extend", default=[], metavar="NAME=VALUE")
    add("--producer-props", nargs="+", action="extend", default=[], metavar="NAME=VALUE")
    add("--command-config", metavar="FILE", help="a file of producer settings")
    add("--producer.config", dest="producer_config", metavar="FILE", help="its old name")
    add("--print-metrics", action="store_true", help="print the producer's metrics at the end")
    add("--transactional-id")
    add("--transaction-duration-ms", type=int, help="the duration of each transaction")
    add(
        "--warmup-records",
        type=int,
        default=0,
        help="number of records to omit from a second summary",
    )
    add(
        "--reporting-interval", type=int, default=5000, metavar="MS", help="the interval of reports"
    )
    add("--payload-delimiter", default="\\n", help="the separator of payloads in a file")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, help="bytes of a record")
    payload.add_argument("--payload-file", help="a file of payloads, picked at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="ascending numbers")
    return parser


def check(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    args = parser.parse_args(words)
    sources = (args.bootstrap_server, args.command_property, args.producer_props)
    if not any((*sources, args.command_config, args.producer_config)):
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props,"
            " --producer.config or --command-config must be specified."
        )
    if args.record_size is not None and args.record_size <= 0:
        parser.error("--record-size should be greater than zero.")
    if args.num_records <= 0:
        parser.error("--num-records should be greater than zero.")
    if args.warmup_records < 0:
        parser.error("--warmup-records should be greater than or equal to zero.")
    if args.warmup_records >= args.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in"
            " the test, --num-records."
        )
    if args.transaction_duration_ms is not None and args.transaction_duration_ms <= 0:
        parser.error("--transaction-duration-ms should be greater than zero.")
    return args


def produce(args: argparse.Namespace) -> int:
    settings = producer_settings(args)
    bootstrap = str(settings.pop("bootstrap.servers"))
    payload = payloads(args)
    probe(bootstrap, settings)
    if args.warmup_records:
        print(
            f"Warmup first {args.warmup_records} records. Steady state results will print after"
            " the complete test summary."
        )
    stats = PerfStats(args.num_records, args.reporting_interval)
    load = Load(args, stats)
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
    if args.print_metrics:
        print_metrics("producer-metrics", producer.metrics())
    if load.failures:
        why = gone or load.failure
        print(f"{load.failures} records were not delivered: {why}", file=sys.stderr)
    elif gone is not None:
        raise gone
    return 1 if load.failures else 0


def silence_s(settings: Mapping[str, Setting]) -> float:
    """How long no record may be delivered before the brokers count as gone."""
    timeout_ms = str(settings.get("delivery.timeout.ms", ""))
    return min(SILENCE_S_MAX, int(timeout_ms) / 1000) if timeout_ms.isdigit() else SILENCE_S_MAX


class Load:
    """Sends the records at the requested rate."""

    def __init__(self, args: argparse.Namespace, stats: PerfStats) -> None:
        self._args = args
        self._stats = stats
        self.steady: PerfStats | None = None
        self._delivered = 0
        self.failures = 0
        self.failure: Exception | None = None

    def delivered(self, latency_ms: float, size: int, failure: Exception | None) -> None:
        if failure is not None:
            self.failures += 1
            self.failure = failure
            return
        self._delivered += 1
        steady = self.steady is not None and self._delivered > self._args.warmup_records
        self._stats.add(latency_ms, size, quiet=steady)
        if steady and self.steady is not None:
            self.steady.add(latency_ms, size)

    def run(self, producer: BulkProducer, payload: Payload, transactional: bool) -> None:
        args = self._args
        duration_s = (args.transaction_duration_ms or TRANSACTION_MS) / 1000
        if transactional:
            producer.start_transactions()
            producer.begin()
        begun = started = time.monotonic()
        for number in range(args.num_records):
            if args.warmup_records and number == args.warmup_records:
                self._enter_steady_state()
            producer.send(args.topic, payload(number))
            now = time.monotonic()
            if transactional and now - begun >= duration_s:
                producer.commit()
                producer.begin()
                begun = now
            if args.throughput > 0:
                ahead_s = (number + 1) / args.throughput - (now - started)
                if ahead_s > 0.001:
                    producer.wait(ahead_s)
        if transactional:
            producer.commit()
        producer.flush()

    def _enter_steady_state(self) -> None:
        print("In steady state.")
        args = self._args
        self.steady = PerfStats(args.num_records - args.warmup_records, args.reporting_interval)


def producer_settings(args: argparse.Namespace) -> dict[str, Setting]:
    for old, new in (("producer_props", "command_property"), ("producer_config", "command_config")):
        if getattr(args, old):
            flags = old.replace("_props", "-props").replace("_config", ".config")
            print(
                f"Option --{flags} has been deprecated and will be removed in a future version."
                f" Use --{new.replace('_', '-')} instead."
            )
    settings: dict[str, Setting] = {
        "client.id": "perf-producer-client",
        **read_properties(args.command_config or args.producer_config),
    }
    for word in (*args.producer_props, *args.command_property):
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(f"Invalid property: {word}")
        settings[name] = value
    if args.bootstrap_server is not None:
        settings["bootstrap.servers"] = args.bootstrap_server
    if args.transactional_id is not None:
        settings["transactional.id"] = args.transactional_id
    elif args.transaction_duration_ms is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    if str(settings.get("acks", "all")) not in ("all", "-1"):
        settings.setdefault("enable.idempotence", False)
    if "bootstrap.servers" not in settings:
        raise ToolError("No bootstrap.servers among the settings")
    return settings


def payloads(args: argparse.Namespace) -> Payload:
    if args.payload_monotonic:
        return lambda number: str(number).encode()
    dice = random.Random(0)
    if args.payload_file is not None:
        listed = read_payloads(args.payload_file, args.payload_delimiter)
        return lambda number: dice.choice(listed)
    size: int = args.record_size
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
    listed = [payload.encode() for payload in (found[:-1] if not found[-1] else found)]
    print(f"Number of records read: {len(listed)}")
    return listed


if __name__ == "__main__":
    sys.exit(main())
