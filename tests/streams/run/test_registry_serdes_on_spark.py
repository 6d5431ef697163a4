"""Avro in an application on Spark: its topics, its store, and an unreadable record.

The registry is a setting of the application; values are records without a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from running_streams import Mill

from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.server import RegistryServer
from ottla.streams import Avro, String, Topology

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass
class Order:
    customer: str
    total: int


@dataclass
class Customer:
    name: str


def totals() -> Topology:
    topology = Topology(value=Avro())
    (
        topology.stream("orders", key=String())
        .group_by(lambda _, order: Customer(order["customer"]), key=Avro(Customer))
        .reduce(
            lambda a, b: a | {"total": a["total"] + b["total"]},  # type: ignore[return-value]
            store="totals",
        )
        .filter(lambda _, order: order["total"] > 5)
        .group_by(lambda key, order: (key, order), key=Avro(Customer))
        .reduce(lambda a, b: b, lambda a, b: a, store="again")
        .to_stream()
        .to("totals")
    )
    return topology


def test_an_application_reads_keeps_and_writes_avro(mill: Mill) -> None:
    mill.topics(orders=2, totals=1, letters=1)
    with RegistryServer(KafkaSchemaRegistry(mill.cluster.bootstrap_servers), port=0) as registry:
        key, value = Avro(Customer, registry=registry.url), Avro(Order, registry=registry.url)
        of_key = key.configured({}, is_key=True)
        sent = [value.serialize("orders", order) for order in (Order("ann", 5), Order("bob", 7))]
        more = value.serialize("orders", Order("ann", 2))
        mill.send("orders", [("1", sent[0]), ("2", sent[1]), ("3", b"nobody's"), ("4", more)])
        config = {
            "schema.registry.url": registry.url,
            "default.deserialization.exception.handler": "LogAndContinueExceptionHandler",
            "errors.dead.letter.queue.topic.name": "letters",
        }
        app = mill.application(totals(), config=config)
        app.start()

        def found(records: list[tuple[bytes | None, bytes | None]]) -> dict[str, int]:
            pairs = [
                (of_key.deserialize("totals", name), value.deserialize("totals", total))
                for name, total in records
            ]
            return {name.name: total.total for name, total in pairs if name and total}

        mill.received("totals", lambda records: found(records) == {"ann": 7, "bob": 7})
        assert mill.received("letters", lambda letters: len(letters) == 1) == [(b"3", b"nobody's")]
        store = app.store("totals")
        store.refresh()
        assert store.get(Customer("ann")) == {"customer": "ann", "total": 7}
        assert app.close()
