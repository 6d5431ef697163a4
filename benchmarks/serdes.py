"""How fast records become bytes and bytes records, by Ottla's serdes and by confluent-kafka's.

    .venv/bin/python benchmarks/serdes.py

A flat record of six fields, dicts (and, for ours, dataclasses), schemas in a registry of
LocalCluster. Both take turns in one process; a number is the best of ROUNDS rounds, in records of a
second of CPU time. Last: what a send and a read with plain serdes cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client import Avro, JsonSchema, Protobuf, SchemaRegistry
from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.testing import LocalCluster

ROUNDS = 7
SECONDS = 0.3


@dataclass
class Order:
    id: int
    customer: str
    sku: str
    count: int
    price: float
    paid: bool


ORDER = Order(123_456_789, "customer-42", "sku-0815", 3, 19.99, True)


def rate(call: Callable[[], Any]) -> float:
    """Calls per second of this process's CPU time."""
    count = 0
    start = time.process_time()
    while True:
        for _ in range(50):
            call()
        count += 50
        spent = time.process_time() - start
        if spent > SECONDS:
            return count / spent


def compare(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    best = dict.fromkeys(calls, 0.0)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = max(best[name], rate(call))
    return best


def languages(registry: SchemaRegistry, theirs: SchemaRegistryClient) -> None:
    plain = asdict(ORDER)
    context = SerializationContext("orders", MessageField.VALUE)
    for made in (Avro(Order, registry=registry), JsonSchema(Order, registry=registry)):
        topic = f"orders-{made.kind.lower()}"
        context = SerializationContext(topic, MessageField.VALUE)
        data = made.serialize(topic, ORDER)
        text = registry.version(f"{topic}-value").text
        dicts: Any = type(made)(schema=text, registry=registry)
        if made.kind == "AVRO":
            write: Any = AvroSerializer(theirs, text)
            read: Any = AvroDeserializer(theirs)
        else:
            write, read = JSONSerializer(text, theirs), JSONDeserializer(text)
        report(made.kind, made, dicts, topic, data, plain, plain, write, read, context)
    topic = "orders-protobuf"
    proto = Protobuf(Order, registry=registry)
    data = proto.serialize(topic, ORDER)
    text = registry.version(f"{topic}-value")
    message_class = MessageTypes(registry.parsed(text)).by_indexes((0,))
    message = message_class(**plain)
    classes: Any = Protobuf(message_class, registry=registry)
    context = SerializationContext(topic, MessageField.VALUE)
    write, read = ProtobufSerializer(message_class, theirs), ProtobufDeserializer(message_class, {})
    report("PROTOBUF", proto, classes, topic, data, message, message, write, read, context)


def report(
    kind: str,
    models: Any,
    same: Any,
    topic: str,
    data: bytes,
    value: Any,
    their_value: Any,
    write: Any,
    read: Any,
    context: SerializationContext,
) -> None:
    assert write(their_value, context)[5:] == same.serialize(topic, value)[5:]
    found = compare(
        {
            "write, ours": lambda: same.serialize(topic, value),
            "write, theirs": lambda: write(their_value, context),
            "write, ours, dataclass": lambda: models.serialize(topic, ORDER),
            "read, ours": lambda: same.deserialize(topic, data),
            "read, theirs": lambda: read(data, context),
            "read, ours, dataclass": lambda: models.deserialize(topic, data),
        }
    )
    for name, number in found.items():
        print(f"{kind:10} {name:25} {number:12,.0f} /s  {1e6 / number:6.2f} us", flush=True)


def main() -> None:
    with (
        LocalCluster(registry=True) as cluster,
        SchemaRegistryClient({"url": cluster.registry_url}) as theirs,
    ):
        registry = SchemaRegistry(cluster.registry_url)
        languages(registry, theirs)
        registry.close()


if __name__ == "__main__":
    main()
