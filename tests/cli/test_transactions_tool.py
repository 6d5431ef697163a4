"""kafka-transactions; columns and sentences are those of Apache Kafka 4.3.1's tool."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from ottla.cli.kafka.transactions import main
from ottla.client import Admin, Consumer, Producer

Tool = Callable[..., Any]


@pytest.fixture
def transactions(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def name() -> str:
    """An unused transactional id."""
    return f"tx-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer[Any, Any]]:
    with Producer(bootstrap, delivery="exactly_once", transactional_id=name) as producer:
        yield producer


def rows(ran: Any) -> list[dict[str, str]]:
    """Each row by the names of its columns; each cell has a tab behind it."""
    header, *lines = ([cell.strip() for cell in entry.split("\t")[:-1]] for entry in ran.lines)
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_list_and_describe(
    transactions: Tool, producer: Producer[Any, Any], five: str, name: str
) -> None:
    with producer.transaction():
        producer.send(five, b"x", partition=0).result()
        (row,) = (entry for entry in rows(transactions("list")) if entry["TransactionalId"] == name)
        assert row["TransactionState"] == "Ongoing"
        ran = transactions("describe", "--transactional-id", name)
        (found,) = rows(ran)
        assert ran.lines[0].split("\t")[:2] == ["CoordinatorId", "TransactionalId"]
        assert found["TransactionState"] == "Ongoing"
        assert found["TopicPartitions"] == f"{five}-0"
        assert found["ProducerId"] == row["ProducerId"]
        assert int(found["TransactionDurationMs"]) >= 0
    (done,) = rows(transactions("list", "--transactional-id-pattern", f"{name}|nobody"))
    assert done["TransactionState"] in ("PrepareCommit", "CompleteCommit")
    assert rows(transactions("list", "--transactional-id-pattern", "nobody")) == []
    long_ago = transactions("list", "--duration-filter", "100000000")
    assert name not in long_ago.out


def test_an_id_without_a_transaction_is_shown(
    transactions: Tool, producer: Producer[Any, Any], name: str
) -> None:
    (found,) = rows(transactions("describe", "--transactional-id", name))
    assert found["TransactionState"] == "Empty"
    assert found["CurrentTransactionStartTimeMs"] == "None"
    assert found["TransactionDurationMs"] == "None"
    assert found["TopicPartitions"] == ""


def test_an_unknown_id_is_reported(transactions: Tool, name: str) -> None:
    ran = transactions("describe", "--transactional-id", name)
    assert ran.err == (
        f"Failed to describe transaction state of transactional-id `{name}`: DescribeTransactions"
        f" request for transactionalId `{name}` failed because the ID could not be found."
        " Enable debug logging for additional detail.\n"
    )
    assert ran.code == 1


def test_force_terminate(transactions: Tool, producer: Producer[Any, Any], name: str) -> None:
    ran = transactions("forceTerminateTransaction", "--transactionalId", name)
    assert (ran.out, ran.err, ran.code) == ("", "", 0)
    (found,) = rows(transactions("describe", "--transactional-id", name))
    assert int(found["ProducerEpoch"]) > 0


def test_producers_of_a_partition(
    transactions: Tool, producer: Producer[Any, Any], admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, 1)
    words = ("describe-producers", "--topic", topic, "--partition", "0")
    with producer.transaction():
        producer.send(topic, b"x").result()
        (found,) = rows(transactions(*words))
        assert found["CurrentTransactionStartOffset"] == "0"
        assert found["LastSequence"] == "0"
        assert rows(transactions(*words, "--broker-id", "0")) == [found]
        hanging = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
        assert rows(transactions(*hanging)) == []  # the coordinator will end it
    (found,) = rows(transactions(*words))
    assert found["CurrentTransactionStartOffset"] == "None"


class Undone(Exception):
    """Ends a transaction's block, and so the transaction."""


@contextmanager
def undone(producer: Producer[Any, Any]) -> Iterator[None]:
    """A transaction that its producer aborts."""
    with suppress(Undone), producer.transaction():
        yield
        raise Undone


def test_abort_by_start_offset(
    transactions: Tool, bootstrap: str, producer: Producer[Any, Any], admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, 1)
    place = ("abort", "--topic", topic, "--partition", "0")
    with undone(producer):
        producer.send(topic, b"lost").result()
        missing = transactions(*place, "--start-offset", "7")
        assert missing.err == (
            f"Could not find any open transactions starting at offset 7 on partition {topic}-0\n"
        )
        assert missing.code == 1
        ran = transactions(*place, "--start-offset", "0")
        assert (ran.out, ran.err, ran.code) == ("", "", 0)
    with Producer(bootstrap) as plain:
        plain.send(topic, b"kept").result()
    settings = {"isolation.level": "read_committed"}
    with Consumer(bootstrap, topic, auto_offset_reset="earliest", settings=settings) as consumer:
        assert [record.value for record in consumer.take(1)] == [b"kept"]


def test_abort_by_producer(
    transactions: Tool, producer: Producer[Any, Any], admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, 1)
    place = ("--topic", topic, "--partition", "0")
    with undone(producer):
        producer.send(topic, b"x").result()
        (found,) = rows(transactions("describe-producers", *place))
        who = ("--producer-id", found["ProducerId"], "--producer-epoch", found["ProducerEpoch"])
        assert transactions("abort", *place, *who, "--coordinator-epoch", "0").code == 0
        (found,) = rows(transactions("describe-producers", *place))
        assert found["CurrentTransactionStartOffset"] == "None"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "too few arguments"),
        (["bogus"], "invalid choice: 'bogus' (choose from 'list', 'describe', "),
        (["list", "extra"], "unrecognized arguments: 'extra'"),
        (["list", "--nosuch"], "unrecognized arguments: '--nosuch'"),
        (["describe"], "argument --transactional-id is required"),
        (["describe-producers", "--topic", "t"], "argument --partition is required"),
        (
            ["describe-producers", "--topic", "t", "--partition", "x"],
            "argument --partition: could not convert 'x' to Integer (For input string: \"x\")",
        ),
    ],
)
def test_wrong_command_lines(transactions: Tool, words: list[str], sentence: str) -> None:
    ran = transactions(*words)
    usage, *_, last = ran.err.splitlines()
    assert usage.startswith("usage: kafka-transactions.sh ")
    assert last.startswith(f"kafka-transactions.sh: error: {sentence}")
    assert ran.code == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["find-hanging"], "The `find-hanging` command requires either --topic or --broker-id"),
        (
            ["find-hanging", "--broker-id", "0", "--partition", "0"],
            "The --partition argument requires --topic to be provided",
        ),
        (
            ["abort", "--topic", "t", "--partition", "0"],
            "The transaction to abort must be identified either with --start-offset",
        ),
        (
            ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"],
            "Missing required argument --producer-epoch",
        ),
        (
            ["find-hanging", "--topic", "no-such-topic"],
            "Failed to describe 1 topics: ",
        ),
    ],
)
def test_invalid_requests_are_refused(transactions: Tool, words: list[str], sentence: str) -> None:
    ran = transactions(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_without_a_broker(run: Tool) -> None:
    assert "argument --bootstrap-server is required" in run(main, "list").err
    assert run(main, "--version").code == 0
    helped = run(main, "--help")
    assert "forceTerminateTransaction" in helped.out
    assert helped.code == 1  # as Kafka's
