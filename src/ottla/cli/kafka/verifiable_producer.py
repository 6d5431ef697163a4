"""kafka-verifiable-producer: sends numbers, and prints a line of JSON for each record."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import exception_name, message_of
from ottla.cli.kafka.subcommands import SubcommandParser, run_parsed, tool_parser
from ottla.cli.kafka.tool import read_properties
from ottla.cli.kafka.verifiable_events import print_event
from ottla.cli.local.stop_signals import StopSignals
from ottla.client.delivery import Setting
from ottla.client.producer import FutureRecordMetadata, Producer
from ottla.client.protocol.probe import probe
from ottla.errors import KafkaError

NAME: Final = "kafka-verifiable-producer"
DESCRIPTION: Final = (
    "This tool produces increasing integers to the specified topic and prints JSON metadata to"
    ' stdout on each "send" request, making externally visible which messages have been acked and'
    " which have not."
)
EXAMPLES: Final = """\
examples:
  kafka-verifiable-producer --bootstrap-server localhost:9092 --topic numbers --max-messages 10
  kafka-verifiable-producer --bootstrap-server localhost:9092 --topic numbers --throughput 100
"""
ENDLESS: Final = sys.maxsize
LOOK_EVERY_S: Final = 0.1  # the longest time until a signal is noticed


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments, help_without_arguments=True)


def work(args: argparse.Namespace) -> None:
    settings = producer_settings(args)
    probe(args.bootstrap_server, settings)
    with StopSignals() as signals:
        numbers = Numbers(args, signals)
        producer = Producer(args.bootstrap_server, key=str, value=str, settings=settings)
        numbers.run(producer)


def producer_settings(args: argparse.Namespace) -> dict[str, Setting]:
    """Kafka's defaults: no retries, so that every failure is visible; the file wins."""
    settings: dict[str, Setting] = {"acks": args.acks, "retries": 0, "enable.idempotence": False}
    path = args.command_config or args.producer_config
    return {**settings, **read_properties(path)}


class Numbers:
    """Counts up until there are enough numbers or a signal; then waits for deliveries."""

    def __init__(self, args: argparse.Namespace, signals: StopSignals) -> None:
        self._args = args
        self._signals = signals
        self._key = 0
        self.sent = self.acked = 0
        self._began = time.monotonic()
        self._create_time: int | None = args.create_time if args.create_time >= 0 else None

    def run(self, producer: Producer[str, str]) -> None:
        args = self._args
        count = args.max_messages if args.max_messages >= 0 else ENDLESS
        print_event("startup_complete")
        try:
            for number in range(count):
                if self._signals.stopping:
                    break
                self._send(producer, self._next_key(), self._value(number))
                self._throttle(number + 1)
        finally:
            producer.close()
            print_event("shutdown_complete")
            self._summary()

    def _send(self, producer: Producer[str, str], key: str | None, value: str) -> None:
        self.sent += 1
        try:
            sending = producer.send(
                self._args.topic, value, key=key, timestamp_ms=self._timestamp()
            )
        except KafkaError as error:
            self._failed(key, value, error)
        else:
            sending.add_done_callback(lambda done: self._done(key, value, done))

    def _done(self, key: str | None, value: str, sending: object) -> None:
        assert isinstance(sending, FutureRecordMetadata)
        error = sending.exception()
        if isinstance(error, KafkaError):
            self._failed(key, value, error)
            return
        where = sending.result()
        self.acked += 1
        print_event(
            "producer_send_success",
            key=key,
            value=value,
            offset=where.offset,
            topic=where.topic,
            partition=where.partition,
        )

    def _failed(self, key: str | None, value: str, error: KafkaError) -> None:
        print_event(
            "producer_send_error",
            topic=self._args.topic,
            key=key,
            value=value,
            exception=f"class {exception_name(error.code)}",
            message=message_of(error),
        )

    def _summary(self) -> None:
        elapsed_s = max(time.monotonic() - self._began, 0.001)
        print_event(
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=self._args.throughput,
            avg_throughput=self.acked / elapsed_s,
        )

    def _next_key(self) -> str | None:
        if self._args.repeating_keys is None:
            return None
        key = str(self._key)
        self._key = (self._key + 1) % self._args.repeating_keys
        return key

    def _value(self, number: int) -> str:
        prefix = self._args.value_prefix
        return str(number) if prefix is None else f"{prefix}.{number}"

    def _timestamp(self) -> int | None:
        """Grows with the time since the start, as in Kafka's tool."""
        args = self._create_time
        if args is not None:
            self._create_time = args + int((time.monotonic() - self._began) * 1000)
        return args

    def _throttle(self, sent: int) -> None:
        """As in Kafka's tool, a rate of 0 sends one record, and then waits for a signal."""
        throughput = self._args.throughput
        while throughput >= 0 and not self._signals.stopping:
            due_s = sent / throughput if throughput else float("inf")
            ahead_s = due_s - (time.monotonic() - self._began)
            if ahead_s <= 0:
                break
            time.sleep(min(ahead_s, LOOK_EVERY_S))


def _parser() -> SubcommandParser:
    parser = tool_parser("verifiable-producer", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="Produce messages to this topic.")
    add("--bootstrap-server", required=True, metavar="HOST1:PORT1[,...]", help="The brokers.")
    add(
        "--max-messages",
        type=int,
        default=-1,
        metavar="N",
        help="Number of messages; -1: no limit.",
    )
    add(
        "--throughput", type=int, default=-1, metavar="N", help="Messages per second; -1: no limit."
    )
    add("--acks", type=int, default=-1, choices=(0, 1, -1), help="Acks for each message.")
    add("--command-config", metavar="FILE", help="A file of producer settings.")
    add("--producer.config", dest="producer_config", metavar="FILE", help="Its old name.")
    add(
        "--message-create-time",
        dest="create_time",
        type=int,
        default=-1,
        metavar="MS",
        help="The first message's timestamp, in milliseconds since 1970.",
    )
    add("--value-prefix", type=int, metavar="N", help="Values are N.0, N.1, ...")
    add("--repeating-keys", type=int, metavar="N", help="Keys are 0 to N-1, and 0 again.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
