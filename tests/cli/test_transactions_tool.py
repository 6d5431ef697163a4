"""kafka-transactions; columns and sentences are those of Apache Kafka 4.3.1's tool."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.kafka.transactions import main
from ottla.client import Producer

Tool = Callable[..., Any]


@pytest.fixture
def transactions(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def name() -> str:
    """A transactional id that nobody has used yet."""
    return f"tx-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer[Any, Any]]:
    with Producer(bootstrap, delivery="exactly_once", transactional_id=name) as producer:
        yield producer


def rows(ran: Any) -> list[dict[str, str]]:
    """Each row by the names of its columns; each cell has a tab behind it."""
    header, *lines = ([cell.strip() for cell in each.split("\t")[:-1]] for each in ran.lines)
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_an_id_that_has_begun_nothing(
    transactions: Tool, producer: Producer[Any, Any], name: str
) -> None:
    (found,) = rows(transactions("describe", "--transactional-id", name))
    assert found["TransactionState"] == "Empty"
    assert found["CurrentTransactionStartTimeMs"] == "None"
    assert found["TransactionDurationMs"] == "None"
    assert found["TopicPartitions"] == ""


def test_an_id_nobody_knows(transactions: Tool, name: str) -> None:
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
def test_what_is_refused(transactions: Tool, words: list[str], sentence: str) -> None:
    ran = transactions(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_without_a_broker(run: Tool) -> None:
    assert "argument --bootstrap-server is required" in run(main, "list").err
    assert run(main, "--version").code == 0
    helped = run(main, "--help")
    assert "forceTerminateTransaction" in helped.out
    assert helped.code == 1  # as Kafka's
