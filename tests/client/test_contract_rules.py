"""Rules of data contracts: serdes run them on values in both directions, and between versions."""

from __future__ import annotations

import json
import logging
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from confluent_kafka.serialization import SerializationError as TheirError

from ottla.client import Avro, JsonSchema, Protobuf, SchemaRegistry, SerializationError
from ottla.client.serdes.contract_rules import RuleContext

KINDS = [Avro, JsonSchema, Protobuf]


@dataclass
class Order:
    customer: str
    total: int


@pytest.fixture
def registry(registry_url: str) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(registry_url)
    yield made
    made.close()


@pytest.fixture
def topic() -> str:
    return f"rules-{uuid.uuid4().hex[:8]}"


def rule(name: str, mode: str, expr: str = "", **words: Any) -> dict[str, Any]:
    return {"name": name, "mode": mode, "kind": "TRANSFORM", "type": "CEL", "expr": expr, **words}


def with_rules(
    of: Any, topic: str, registry: SchemaRegistry, *rules: dict[str, Any], **groups: Any
) -> None:
    """The next version of the subject: the same schema, with rules."""
    subject = f"{topic}-value"
    of(Order, registry=registry.url).serialize(topic, Order("ann", 1))
    found = registry.version(subject)
    body = {
        "schema": found.text,
        "schemaType": found.kind,
        "ruleSet": {"domainRules": list(rules), **groups},
    }
    registry.ask("POST", "subjects", subject, "versions", body=body)


def latest(of: Any, registry: SchemaRegistry, **settings: Any) -> Any:
    given = {"use.latest.version": "true", "latest.cache.ttl.sec": 0, **settings}
    return of(Order, registry=registry, settings=given)


@pytest.mark.parametrize("of", KINDS)
def test_a_rule_without_an_executor_refuses_the_record(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    with_rules(of, topic, registry, rule("secret", "WRITE", type="ENCRYPT"))
    with pytest.raises(SerializationError, match=r"rule secret \(WRITE\): no executor .* ENCRYPT"):
        latest(of, registry).serialize(topic, Order("ann", 5))
    off = latest(of, registry, **{"rule.executors": {"ENCRYPT": None}})
    assert off.serialize(topic, Order("ann", 5))


def test_confluent_refuses_it_as_well(topic: str, registry: SchemaRegistry) -> None:
    with_rules(Avro, topic, registry, rule("secret", "WRITE", type="ENCRYPT"))
    with SchemaRegistryClient({"url": registry.url}) as client:
        conf = {"auto.register.schemas": False, "use.latest.version": True}
        text = registry.version(f"{topic}-value").text
        write = AvroSerializer(client, text, conf=conf)
        with pytest.raises(TheirError):
            write({"customer": "ann", "total": 1}, SerializationContext(topic, MessageField.VALUE))


@pytest.mark.parametrize("of", KINDS)
def test_conditions_and_transformations_in_cel(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    with_rules(
        of,
        topic,
        registry,
        rule("positive", "WRITE", "message.total > 0", kind="CONDITION", doc="total is positive"),
        rule("shout", "WRITE", "{'customer': message.customer + '!', 'total': message.total}"),
        rule("double", "READ", "message.total > 9; {'customer': 'many', 'total': message.total}"),
    )
    serde = latest(of, registry)
    data = serde.serialize(topic, Order("ann", 5))
    assert serde.deserialize(topic, data) == Order("ann!", 5)
    assert serde.deserialize(topic, serde.serialize(topic, Order("ann", 10))) == Order("many", 10)
    with pytest.raises(SerializationError, match="total is positive"):
        serde.serialize(topic, Order("ann", -1))
    assert of(registry=registry).deserialize(topic, data)["customer"] == "ann!"


def test_rules_run_in_order_and_backwards_when_read(topic: str, registry: SchemaRegistry) -> None:
    seen: list[tuple[str, str, str]] = []

    def note(context: RuleContext, value: Any) -> Any:
        seen.append((context.rule.name, context.mode, context.subject))
        return value

    modes = {"a": "WRITEREAD", "b": "WRITE", "c": "WRITEREAD", "d": "READ"}
    rules = [rule(name, mode, type="NOTE") for name, mode in modes.items()]
    with_rules(Avro, topic, registry, *rules, rule("off", "WRITE", type="NOTE", disabled=True))
    serde = latest(Avro, registry, **{"rule.executors": {"note": note}})
    serde.deserialize(topic, serde.serialize(topic, Order("ann", 5)))
    assert [entry[:2] for entry in seen] == [
        ("a", "WRITE"),
        ("b", "WRITE"),
        ("c", "WRITE"),
        ("d", "READ"),
        ("c", "READ"),
        ("a", "READ"),
    ]
    assert {entry[2] for entry in seen} == {f"{topic}-value"}


def test_actions(topic: str, registry: SchemaRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """NONE accepts the record; others are callables; of two actions each is for one direction."""
    letters: list[tuple[str, Any, str]] = []

    def dlq(context: RuleContext, value: Any, error: Exception | None) -> None:
        letters.append((context.topic, value, str(error)))
        raise SerializationError("sent to the dead letter topic")

    def broken(context: RuleContext, value: Any, error: Exception | None) -> None:
        raise OSError("no mail today")

    fails = {"kind": "CONDITION", "expr": "message.total > 5"}
    with_rules(
        Avro,
        topic,
        registry,
        rule("first", "WRITEREAD", **fails, onFailure="NONE,DLQ", onSuccess="MAIL,NONE"),
    )
    actions = {"rule.actions": {"DLQ": dlq, "MAIL": broken}}
    serde = latest(Avro, registry, **actions)
    data = serde.serialize(topic, Order("ann", 5))
    with pytest.raises(SerializationError, match="dead letter topic"):
        serde.deserialize(topic, data)
    assert letters == [
        (topic, {"customer": "ann", "total": 5}, "it does not hold: message.total > 5")
    ]
    with caplog.at_level(logging.WARNING):
        assert serde.serialize(topic, Order("ann", 6))
    assert "no mail today" in caplog.text
    with pytest.raises(SerializationError, match="there is no action DLQ"):
        latest(Avro, registry).deserialize(topic, data)


@pytest.mark.parametrize("of", [Avro, JsonSchema])
def test_migration_rules_bring_values_to_another_version(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    def text(name: str) -> str:
        if of is Avro:
            fields = [{"name": name, "type": "string"}]
            return json.dumps({"type": "record", "name": "P", "fields": fields})
        words = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        return json.dumps({"title": "P", **words, "additionalProperties": False})

    subject = f"{topic}-value"
    registry.ask("PUT", "config", subject, body={"compatibility": "NONE"})
    rules = [
        rule(
            "up", "UPGRADE", "$merge([$sift($, function($v, $k) {$k != 'name'}), {'full': name}])"
        ),
        rule("down", "DOWNGRADE", "{'name': full}"),
    ]
    migrations = {"migrationRules": [{**entry, "type": "JSONATA"} for entry in rules]}
    ids = []
    for number, name, rule_set in (("1", "name", {}), ("2", "full", migrations)):
        body = {"schema": text(name), "schemaType": of.kind, "ruleSet": rule_set}
        body["metadata"] = {"properties": {"v": number}}
        ids.append(registry.ask("POST", "subjects", subject, "versions", body=body)["id"])
    old, new = (
        of(registry=registry, settings={"use.schema.id": id}).serialize(topic, {name: "ann"})
        for id, name in zip(ids, ("name", "full"), strict=True)
    )
    latest: Any = of(registry=registry, settings={"use.latest.version": "true"})
    assert latest.deserialize(topic, old) == latest.deserialize(topic, new) == {"full": "ann"}
    assert latest.deserialize(topic, old).schema.text == registry.version(subject).text
    first: Any = of(registry=registry, settings={"use.latest.with.metadata": "v=1"})
    assert first.deserialize(topic, new) == first.deserialize(topic, old) == {"name": "ann"}


def test_encoding_rules_are_refused(topic: str, registry: SchemaRegistry) -> None:
    with_rules(
        Avro, topic, registry, encodingRules=[rule("e", "WRITEREAD", type="ENCRYPT_PAYLOAD")]
    )
    with pytest.raises(SerializationError, match="encoding rules"):
        latest(Avro, registry).serialize(topic, Order("ann", 5))


def test_a_missing_package_names_the_extra(
    topic: str, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonata", None)
    with_rules(Avro, topic, registry, rule("j", "WRITE", f"{{'{topic}': 1}}", type="JSONATA"))
    with pytest.raises(SerializationError, match=r"\[rules\]"):
        latest(Avro, registry).serialize(topic, Order("ann", 5))
