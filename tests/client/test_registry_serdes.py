"""Avro, JsonSchema and Protobuf: the schema that a record is written with, and errors."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from ottla.client import (
    Avro,
    JsonSchema,
    KafkaError,
    Producer,
    Protobuf,
    SchemaRegistry,
    SerializationError,
)
from ottla.client.schema_registry_error import SchemaRegistryError
from ottla.client.serde import is_infrastructure
from ottla.client.serdes.registry_serde import RegistrySerde
from ottla.extras import install_command
from ottla.schemas.framing import with_guid
from ottla.schemas.schema_types import Reference
from ottla.testing import LocalCluster

KINDS = [Avro, JsonSchema, Protobuf]
OLD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
NEW = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "note", "type": "string", "default": "none"}]}'
)


@dataclass
class Order:
    id: int
    note: str | None = None


class Customer(BaseModel):
    name: str


@pytest.fixture
def registry(registry_url: str) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(registry_url)
    yield made
    made.close()


@pytest.fixture
def topic() -> str:
    return f"serdes-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TOPIC", "{topic}-value"),
        ("io.confluent.kafka.serializers.subject.TopicNameStrategy", "{topic}-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "Order"),
        ("TOPIC_RECORD", "{topic}-Order"),
        ("AssociatedNameStrategy", "{topic}-value"),
        (lambda topic, is_key, record: f"{topic}.{is_key}.{record}", "{topic}.False.Order"),
    ],
)
def test_a_strategy_names_the_subject(
    of: Any, strategy: Any, subject: str, topic: str, registry: SchemaRegistry
) -> None:
    registry.ask("PUT", "config", "Order", body={"compatibility": "NONE"})
    serde = of(Order, registry=registry, settings={"value.subject.name.strategy": strategy})
    serde.serialize(topic, Order(1))
    registry.version(subject.format(topic=topic))
    key = serde.configured({"key.subject.name.strategy": "TOPIC"}, is_key=True)
    key.serialize(topic, Order(1))
    assert f"{topic}-key" in registry.subjects()


def test_a_schema_that_is_not_registered_is_looked_for(
    topic: str, registry: SchemaRegistry
) -> None:
    serde: Avro[Any] = Avro(
        schema=OLD, registry=registry, settings={"auto.register.schemas": False}
    )
    with pytest.raises(SerializationError, match="not found"):
        serde.serialize(topic, {"id": 1})
    registry.register(f"{topic}-value", "AVRO", OLD)
    assert serde.serialize(topic, {"id": 1}) is not None


def test_normalized_schemas_are_the_same(topic: str, registry: SchemaRegistry) -> None:
    texts = [
        OLD.replace('"fields"', f'{more}, "fields"') for more in ('"a":1,"b":2', '"b":2,"a":1')
    ]
    settings = {"normalize.schemas": "true"}
    one: Avro[Any] = Avro(schema=texts[0], registry=registry, settings=settings)
    two: Avro[Any] = Avro(schema=texts[1], registry=registry, settings=settings)
    assert one.serialize(topic, {"id": 1}) == two.serialize(topic, {"id": 1})
    assert registry.versions(f"{topic}-value") == [1]


def test_the_latest_version_is_used_and_looked_at_again(
    topic: str, registry: SchemaRegistry
) -> None:
    registry.register(f"{topic}-value", "AVRO", OLD)
    settings = {"use.latest.version": True}
    for_good: Avro[Any] = Avro(registry=registry, settings=settings)
    again: Avro[Any] = Avro(registry=registry, settings={**settings, "latest.cache.ttl.sec": 0})
    before = again.serialize(topic, {"id": 1})
    assert for_good.serialize(topic, {"id": 1}) == before
    made = registry.register(f"{topic}-value", "AVRO", NEW)
    assert for_good.serialize(topic, {"id": 1}) == before
    after = again.serialize(topic, {"id": 1})
    assert after is not None
    assert after[1:5] == made.id.to_bytes(4)
    # A reader that uses the latest, too, sees old records with the new field.
    assert for_good.deserialize(topic, before) == {"id": 1, "note": "none"}
    assert Avro[Any](registry=registry).deserialize(topic, before) == {"id": 1}


def test_a_latest_version_that_cant_take_the_values_is_an_error(
    topic: str, registry: SchemaRegistry
) -> None:
    registry.register(f"{topic}-value", "AVRO", OLD)
    text = OLD.replace("long", "string")
    settings = {"use.latest.version": True}
    serde: Avro[Any] = Avro(schema=text, registry=registry, settings=settings)
    with pytest.raises(SerializationError, match=r"latest\.compatibility\.strict"):
        serde.serialize(topic, {"id": 1})
    settings["latest.compatibility.strict"] = False
    assert Avro[Any](schema=text, registry=registry, settings=settings).serialize(topic, {"id": 1})


def test_an_id_or_a_guid_can_be_given(topic: str, registry: SchemaRegistry) -> None:
    old = registry.register(f"{topic}-value", "AVRO", OLD)
    registry.register(f"{topic}-value", "AVRO", NEW)
    by_id: Avro[Any] = Avro(registry=registry, settings={"use.schema.id": old.id})
    data = by_id.serialize(topic, {"id": 1})
    assert data is not None
    assert data[1:5] == old.id.to_bytes(4)
    by_guid: Avro[Any] = Avro(registry=registry, settings={"use.schema.guid": old.guid})
    headers: list[tuple[str, bytes | None]] = []
    in_header = by_guid.configured({"value.schema.id.serializer": "header"}, is_key=False)
    assert in_header.serialize_with_headers(topic, headers, {"id": 1}) == data[5:]
    assert Avro[Any](registry=registry).deserialize_with_headers(topic, headers, data[5:])


def test_a_version_can_be_chosen_by_its_metadata(topic: str, registry: SchemaRegistry) -> None:
    for text, major in ((OLD, "1"), (NEW, "2")):
        body = {"schema": text, "metadata": {"properties": {"major": major}}}
        registry.ask("POST", "subjects", f"{topic}-value", "versions", body=body)
    serde: Avro[Any] = Avro(registry=registry, settings={"use.latest.with.metadata": "major=1"})
    data = serde.serialize(topic, {"id": 1})
    assert data is not None
    assert registry.by_id(int.from_bytes(data[1:5])).text.count("note") == 0


@pytest.mark.parametrize("of", KINDS)
def test_an_unknown_id_is_an_error_that_says_so(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    with pytest.raises(SerializationError, match="schema id 999999") as error:
        of(registry=registry).deserialize(topic, b"\0" + (999_999).to_bytes(4) + b"x")
    assert error.value.schema == "schema id 999999"
    with pytest.raises(SerializationError, match=r"names no schema: .* the first is 0x68"):
        of(registry=registry).deserialize(topic, b"hello")


def test_a_schema_of_another_language_is_an_error(topic: str, registry: SchemaRegistry) -> None:
    data = JsonSchema(Order, registry=registry).serialize(topic, Order(1))
    with pytest.raises(SerializationError, match="it is JSON, not AVRO"):
        Avro(Order, registry=registry).deserialize(topic, data)


def test_a_json_value_that_does_not_fit_is_refused_unless_that_is_off(
    topic: str, registry: SchemaRegistry
) -> None:
    text = '{"type": "object", "title": "T", "properties": {"id": {"type": "integer"}}}'
    serde: JsonSchema[Any] = JsonSchema(schema=text, registry=registry)
    with pytest.raises(SerializationError, match=r"\['id'\]: \"x\" is not of type \"integer\""):
        serde.serialize(topic, {"id": "x"})
    off = {"json.fail.invalid.schema": False}
    loose: JsonSchema[Any] = JsonSchema(schema=text, registry=registry, settings=off)
    data = loose.serialize(topic, {"id": "x"})
    with pytest.raises(SerializationError, match="can't be read by schema id"):
        serde.deserialize(topic, data)
    assert loose.deserialize(topic, data) == {"id": "x"}


@pytest.mark.parametrize("of", KINDS)
def test_a_serde_without_a_class_writes_any_model(
    of: Any, topic: str, registry: SchemaRegistry
) -> None:
    serde = of(registry=registry, settings={"subject.name.strategy": "TOPIC_RECORD"})
    for value in (Order(1, "x"), Customer(name="ann")):
        data = serde.serialize(topic, value)
        assert of(type(value), registry=registry).deserialize(topic, data) == value
    with pytest.raises(SerializationError, match="no schema for a dict"):
        serde.serialize(topic, {"id": 1})


def test_the_header_of_the_previous_record_is_not_used(
    topic: str, registry: SchemaRegistry
) -> None:
    serde = Avro(Order, registry=registry)
    stale: list[tuple[str, bytes | None]] = [("__value_schema_id", b"\x01" * 17), ("a", b"b")]
    data = serde.serialize_with_headers(topic, stale, Order(1))
    assert stale == [("a", b"b")]
    assert serde.deserialize_with_headers(topic, stale, data) == Order(1)


@pytest.mark.parametrize("of", KINDS)
def test_a_guid_may_precede_the_payload(of: Any, topic: str, registry: SchemaRegistry) -> None:
    serde = of(Order, registry=registry)
    data = serde.serialize(topic, Order(1, "x"))
    guid = registry.version(f"{topic}-value").guid
    for _ in range(2):
        assert serde.deserialize(topic, with_guid(guid, data[5:])) == Order(1, "x")
    with pytest.raises(SerializationError, match=f"schema {guid}"):
        serde.deserialize(topic, with_guid(guid, b"\x99\x99\x99"))


def test_dicts_of_a_proto_text_name_their_message(topic: str, registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; package p; message A { int32 a = 1; } message B { string b = 1; }'
    serde: Protobuf[Any] = Protobuf(schema=text, message="B", registry=registry)
    data = serde.serialize(topic, {"b": "x"})
    assert serde.deserialize(topic, data) == {"b": "x"}
    with pytest.raises(SerializationError, match='has no "a" field'):
        serde.serialize(topic, {"a": 1})


def test_the_cache_is_bounded(
    topic: str, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.serdes.registry_serde.KEPT_MAX", 10)
    serde = Avro(Order, registry=registry, settings={"subject.name.strategy": "RECORD"})
    for number in range(25):
        serde.serialize(f"{topic}-{number}", Order(1))
    assert len(serde._writers) <= 10


def test_an_unreachable_registry_is_not_a_record_error() -> None:
    away = SchemaRegistry("http://127.0.0.1:9", tries_max=1)
    with pytest.raises(KafkaError, match="No schema registry answers") as error:
        Avro[Any](registry=away).deserialize("t", b"\0\0\0\0\1x")
    assert is_infrastructure(error.value)
    assert is_infrastructure(SchemaRegistryError(401, 401, "User cannot access the resource."))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"use.latest.versoin": True}, "did you mean use.latest.version"),
        ({"use.latest.version": True, "auto.register.schemas": True}, "can't both be true"),
        ({"value.subject.name.strategy": "Best"}, "no subject name strategy"),
        ({"value.schema.id.serializer": "footer"}, "prefix or header"),
        ({"normalize.schemas": "perhaps"}, "true or false"),
    ],
)
def test_an_invalid_setting_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Avro(Order, settings=settings)


def test_the_libraries_are_imported_with_the_first_record() -> None:
    program = (
        "import sys, ottla.client\n"
        "from ottla.client import Avro, Consumer, JsonSchema, Producer, Protobuf\n"
        "Avro(schema='\"string\"', registry='http://x'), JsonSchema(), Protobuf()\n"
        "heavy = ('fastavro', 'google.protobuf', 'pydantic', 'jsonschema_rs', 'orjson')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.parametrize(
    ("missing", "of"),
    [("fastavro", Avro), ("jsonschema_rs", JsonSchema), ("google.protobuf", Protobuf)],
)
def test_a_missing_package_names_the_extra(
    missing: str, of: type[RegistrySerde[Any]], registry_url: str
) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from dataclasses import dataclass\nfrom ottla.client import {of.__name__}\n"
        "@dataclass\nclass A:\n    a: int\n"
        f"{of.__name__}(A, registry={registry_url!r}).serialize('extra-{missing}', A(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert install_command("registry").encode() in done.stderr


def test_a_schema_that_is_a_reference_alone_has_the_name_of_what_it_refers_to(
    topic: str, registry: SchemaRegistry
) -> None:
    made = registry.register(f"{topic}-order", "AVRO", OLD)
    serde: Avro[Any] = Avro(
        schema='"Order"',
        references=[Reference("Order", made.subject, made.version)],
        registry=registry,
        settings={"subject.name.strategy": "TOPIC_RECORD"},
    )
    assert serde.deserialize(topic, serde.serialize(topic, {"id": 1})) == {"id": 1}
    assert registry.version(f"{topic}-Order").text == '"Order"'


def test_a_topic_is_associated_with_a_subject(
    topic: str, registry: SchemaRegistry, with_registry: LocalCluster
) -> None:
    """The registry only reads associations; a record of another registry creates one here."""
    resource = {"resourceName": topic, "resourceNamespace": "lkc-1", "resourceType": "topic"}
    key = {"keytype": "ASSOC", "tenant": "default", **resource, "associationType": "value"}
    value = {**resource, "associationType": "value", "subject": f"{topic}-contract"}
    with Producer(with_registry.bootstrap_servers, key=dict, value=dict) as producer:
        producer.send("_schemas", value, key={**key, "subject": f"{topic}-contract"}).result()
    deadline_s = time.monotonic() + 60
    while registry.associated_subject(topic, "-", is_key=False) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)

    def subject_for(**settings: str) -> set[str]:
        name = f"Order{uuid.uuid4().hex[:8]}"
        text = OLD.replace("Order", name)
        given = {"subject.name.strategy.type": "ASSOCIATED", **settings}
        before = set(registry.subjects())
        Avro[Any](schema=text, registry=registry, settings=given).serialize(topic, {"id": 1})
        return {subject.replace(name, "NAME") for subject in set(registry.subjects()) - before}

    registry.ask("PUT", "config", f"{topic}-contract", body={"compatibility": "NONE"})
    assert subject_for() == {f"{topic}-contract"}
    elsewhere = {"subject.name.strategy.kafka.cluster.id": "lkc-2"}
    fallback = "subject.name.strategy.fallback.type"
    assert subject_for(**elsewhere) == {f"{topic}-value"}
    assert subject_for(**elsewhere, **{fallback: "RECORD"}) == {"NAME"}
    with pytest.raises(SerializationError, match="no subject is associated"):
        subject_for(**elsewhere, **{fallback: "NONE"})
    assert registry.associated_subject(topic, "-", is_key=True) is None
