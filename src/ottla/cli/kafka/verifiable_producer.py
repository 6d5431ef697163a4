"""kafka-verifiable-producer: numbers, and a line of JSON for each one that was sent."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import java_name, message_of
from ottla.cli.kafka.subcommands import Parser, run_parsed
from ottla.cli.kafka.tool import read_properties
from ottla.cli.kafka.verifiable_events import print_event
from ottla.cli.local.stop_signals import StopSignals
from ottla.client.delivery import Setting
from ottla.client.producer import Producer, Sending
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
LOOK_EVERY_S: Final = 0.1  # how soon a signal is heard


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        _parser().print_help()
        return 0
    return run_parsed(_parser, work, words)


def work(given: argparse.Namespace) -> None:
    settings = producer_settings(given)
    probe(given.bootstrap_server, settings)
    with StopSignals() as signals:
        numbers = Numbers(given, signals)
        producer = Producer(given.bootstrap_server, key=str, value=str, settings=settings)
        numbers.run(producer)


def producer_settings(given: argparse.Namespace) -> dict[str, Setting]:
    """As Kafka's: no retries, so that every failure is seen; the file wins."""
    settings: dict[str, Setting] = {"acks": given.acks, "retries": 0, "enable.idempotence": False}
    path = given.command_config or given.producer_config
    return {**settings, **read_properties(path)}


class Numbers:
    """Counts up until there are enough, or a signal comes; what was sent is waited for."""

    def __init__(self, given: argparse.Namespace, signals: StopSignals) -> None:
        self._given = given
        self._signals = signals
        self._key = 0
        self.sent = self.acked = 0
        self._began = time.monotonic()
        self._create_time: int | None = given.create_time if given.create_time >= 0 else None

    def run(self, producer: Producer[str, str]) -> None:
        given = self._given
        count = given.max_messages if given.max_messages >= 0 else ENDLESS
        print_event("startup_complete")
        try:
            for number in range(count):
                if self._signals.asked:
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
                self._given.topic, value, key=key, timestamp_ms=self._timestamp()
            )
        except KafkaError as error:
            self._failed(key, value, error)
        else:
            sending.add_done_callback(lambda done: self._done(key, value, done))

    def _done(self, key: str | None, value: str, sending: object) -> None:
        assert isinstance(sending, Sending)
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
            topic=self._given.topic,
            key=key,
            value=value,
            exception=f"class {java_name(error.code)}",
            message=message_of(error),
        )

    def _summary(self) -> None:
        elapsed_s = max(time.monotonic() - self._began, 0.001)
        print_event(
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=self._given.throughput,
            avg_throughput=self.acked / elapsed_s,
        )

    def _next_key(self) -> str | None:
        if self._given.repeating_keys is None:
            return None
        key = str(self._key)
        self._key = (self._key + 1) % self._given.repeating_keys
        return key

    def _value(self, number: int) -> str:
        prefix = self._given.value_prefix
        return str(number) if prefix is None else f"{prefix}.{number}"

    def _timestamp(self) -> int | None:
        """It grows with the time since the start, as in Kafka's tool."""
        given = self._create_time
        if given is not None:
            self._create_time = given + int((time.monotonic() - self._began) * 1000)
        return given

    def _throttle(self, sent: int) -> None:
        """A rate of 0 sends one, and then waits for its end, as Kafka's tool does."""
        throughput = self._given.throughput
        while throughput >= 0 and not self._signals.asked:
            due_s = sent / throughput if throughput else float("inf")
            ahead_s = due_s - (time.monotonic() - self._began)
            if ahead_s <= 0:
                break
            time.sleep(min(ahead_s, LOOK_EVERY_S))


def _parser() -> Parser:
    parser = Parser(
        prog="verifiable-producer",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="Produce messages to this topic.")
    add("--bootstrap-server", required=True, metavar="HOST1:PORT1[,...]", help="The broker(s).")
    add(
        "--max-messages", type=int, default=-1, metavar="N", help="How many; -1: until it is ended."
    )
    add("--throughput", type=int, default=-1, metavar="N", help="Messages a second; -1: no limit.")
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
