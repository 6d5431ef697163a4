"""`ottla groups` and `ottla transactions`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Consumer, KafkaError, Producer, TopicPartition

Tool = Callable[..., Any]


@pytest.fixture
def ottla(run: Tool, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", bootstrap)
    return lambda *words, stdin="": run(main, *words, stdin=stdin)


@pytest.fixture
def name() -> str:
    """An unused transactional id."""
    return f"tx-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer[Any, Any]]:
    with Producer(bootstrap, delivery="exactly_once", transactional_id=name) as producer:
        yield producer


def test_members(ottla: Tool, bootstrap: str, five: str, group: str) -> None:
    settings = {"client.id": "me"}
    with Consumer(
        bootstrap, five, group=group, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        consumer.take(1)
        (member,) = json.loads(ottla("groups", "members", group, "--json").out)
        assert member["client_id"] == "me"
        assert member["assignment"] == [[five, 0]]
        table = ottla("groups", "members", group).out
        assert f"{five}:0" in table
        assert "1 member\n" in table
        listed = json.loads(ottla("groups", "list", "--type", "classic", "--json").out)
        assert group in {entry["name"] for entry in listed}
        assert ottla("groups", "list", "--type", "share", "--json").out.find(group) == -1
    missing = ottla("groups", "members", "no-such")
    assert "group no-such does not exist" in missing.err
    assert missing.code == 1


def test_a_transactions_life(
    ottla: Tool, producer: Producer[Any, Any], five: str, name: str
) -> None:
    with producer.transaction():
        producer.send(five, b"x", partition=0).result()
        (listed,) = json.loads(ottla("transactions", "list", name, "--json").out)
        assert listed["state"] == "Ongoing"
        assert ottla("transactions", "list", name, "--state", "Empty", "--json").out == "[]\n"
        described = json.loads(ottla("transactions", "describe", name, "--json").out)
        assert described["partitions"] == [[five, 0]]
        shown = ottla("transactions", "describe", name).out
        assert "Ongoing" in shown
        assert f"writes to {five}-0" in shown
        assert ottla("transactions", "hanging", five, "--older-than", "0").out == "none\n"
    assert name in ottla("transactions", "list").out


def test_abort_fences_the_producer(ottla: Tool, producer: Producer[Any, Any], name: str) -> None:
    before = json.loads(ottla("transactions", "describe", name, "--json").out)
    ran = ottla("transactions", "abort", name, "--yes")
    assert ran.out == f"no transaction of {name} was open; its producer is fenced\n"
    after = json.loads(ottla("transactions", "describe", name, "--json").out)
    assert after["producer_epoch"] > before["producer_epoch"]


def test_abort_of_an_id(ottla: Tool, producer: Producer[Any, Any], name: str, topic: str) -> None:
    def work() -> None:
        with producer.transaction():
            producer.send(topic, b"x").result()
            running = ottla("transactions", "list", name, "--longer-than", "0", "--json").out
            assert len(json.loads(running)) == 1
            ran = ottla("transactions", "abort", name, "--yes")
            assert ran.out == f"aborted the transaction of {name}\n"

    with pytest.raises(KafkaError, match="fenced"):
        work()
    assert ottla("transactions", "list", name, "--longer-than", "0", "--json").out == "[]\n"


def test_abort_in_a_partition(
    ottla: Tool, producer: Producer[Any, Any], admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, 1)
    place = ("--partition", f"{topic}:0", "--yes")
    with producer.transaction():
        producer.send(topic, b"x").result()
        wrong = ottla("transactions", "abort", *place, "--offset", "9")
        assert f"no transaction is open in {topic}-0 since offset 9" in wrong.err
        assert wrong.code == 1
        ran = ottla("transactions", "abort", *place, "--offset", "0")
        assert ran.out == f"aborted the open transaction in {topic}:0 at 0\n"
        partition = TopicPartition(topic, 0)
        (found,) = admin.transactions.producers([partition])[partition]
        assert found.start_offset is None


def test_unknown_transactions_cannot_be_aborted(ottla: Tool, name: str) -> None:
    unknown = ottla("transactions", "abort", name, "--yes")
    assert f"the transactional id {name} was never used" in unknown.err
    assert unknown.code == 1
    assert ottla("transactions", "abort", "--yes").code == 2
    assert ottla("transactions", "abort", name, "--partition", "t:0", "--yes").code == 2
    assert ottla("transactions", "abort", "-p", "t", "--offset", "1", "--yes").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("groups list --type nonsense", "classic, consumer, share"),
        ("groups reset g", "--to"),
        ("groups reset g --to nonsense", "earliest, latest, an offset"),
        ("transactions list --state nonsense", "Ongoing"),
        ("produce t x --delivery exactly_once", "at_least_once or at_most_once"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_ones(ottla: Tool, words: str, said: str) -> None:
    ran = ottla(*words.split())
    assert ran.code == 2
    assert said in ran.err
    assert "java" not in ran.err


def test_an_invalid_place_is_refused(ottla: Tool, five: str) -> None:
    ran = ottla("consume", five, "--from", "nonsense")
    assert ran.code == 2
    assert "beginning, end, an offset" in ran.err
    missing = ottla("groups", "reset", "g", "--to", "latest", "--topic", "no-such:0")
    assert "topic no-such does not exist" in missing.err


def test_names_are_not_read_as_markup(ottla: Tool, five: str) -> None:
    """A group's name may be any text, also rich's markup and emoji codes."""
    name = f"a[/]b :x: [red]{five}"
    assert ottla("groups", "reset", name, "--to", "latest", "--topic", five).code == 0
    assert name in ottla("groups", "list").out
    assert name in ottla("groups", "describe", name).out
    assert f"group {name}x does not exist" in ottla("groups", "describe", f"{name}x").err
    assert ottla("groups", "delete", name, "--yes").out == f"deleted group {name}\n"


def test_offsets_are_reset_in_order(ottla: Tool, admin: Admin, topic: str, group: str) -> None:
    admin.topics.create(topic, 3)
    for index in (2, 0, 1):
        ottla("groups", "reset", group, "--to", "latest", "--topic", f"{topic}:{index}")
    plan = json.loads(ottla("groups", "reset", group, "--to", "earliest", "--json").out)
    assert [partition["partition"] for partition in plan] == [0, 1, 2]
