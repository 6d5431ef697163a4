"""Records of a case as bytes and back, by the formats and types from DESCRIBE."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ottla.client.schema_registry import SchemaRegistry
from ottla.client.serdes.avro import Avro
from ottla.client.serdes.protobuf import Protobuf
from ottla.client.serdes.registry_serde import RegistrySerde

PACKED = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}
LATEST = {"auto.register.schemas": False, "use.latest.version": True}


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """`key_types` are the key columns; `window` is SESSION, HOPPING, TUMBLING or nothing."""

    topic: str
    key_format: str = "KAFKA"
    value_format: str = "JSON"
    key_types: tuple[tuple[str, str], ...] = ()
    window: str = ""
    value_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> TopicInfo:
        """From `sourceDescription`."""
        fields = described["fields"]
        keys = [field for field in fields if field.get("type") == "KEY"]
        return cls(
            described["topic"],
            described["keyFormat"],
            described["valueFormat"],
            tuple((key["name"], key["schema"]["type"]) for key in keys),
            described["windowType"] or "",
            tuple(field["name"] for field in fields if "type" not in field),
        )


class RecordBytes:
    def __init__(self, registry: str) -> None:
        self._registry = SchemaRegistry(registry)

    def key_bytes(self, info: TopicInfo, record: Mapping[str, Any]) -> bytes | None:
        key = record.get("key")
        if key is None:
            return None
        data = self._bytes(info.key_format, info, key, is_key=True)
        window = record.get("window")
        if window is not None:
            data += struct.pack(">q", window["start"])
            if window["type"].lower() == "session":
                # Kafka Streams writes the end of a session before its start.
                data = data[:-8] + struct.pack(">qq", window["end"], window["start"])
        return data

    def value_bytes(self, info: TopicInfo, record: Mapping[str, Any]) -> bytes | None:
        value = record.get("value")
        return None if value is None else self._bytes(info.value_format, info, value, is_key=False)

    def headers(self, record: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
        found = record.get("headers") or ()
        return [(item["KEY"], base64.b64decode(item["VALUE"])) for item in found]

    def _bytes(self, format_: str, info: TopicInfo, value: Any, *, is_key: bool) -> bytes:
        if format_ == "KAFKA":
            return _packed(value, info.key_types[0][1] if is_key and info.key_types else "STRING")
        if format_ == "DELIMITED":
            return str(value).encode()
        if format_ == "JSON":
            return json.dumps(value, default=float).encode()
        schema = self._registry.version(f"{info.topic}-{'key' if is_key else 'value'}")
        if format_ == "AVRO":
            shaped = avro_value(value, json.loads(schema.text))
        else:
            shaped = protobuf_value(value, set(re.findall(r"\b(\w+)\s*=\s*\d", schema.text)))
        if is_key and isinstance(shaped, dict):
            types = dict(info.key_types)
            shaped = {
                name: _typed(field_value, types.get(name, ""))
                for name, field_value in shaped.items()
            }
        elif is_key:
            shaped = _typed(shaped, info.key_types[0][1])
        if format_ == "PROTOBUF" and not isinstance(shaped, dict):
            shaped = {info.key_types[0][0] if is_key else info.value_names[0]: shaped}
        data = self._serde(format_, is_key).serialize(info.topic, shaped)
        assert data is not None
        return data

    def key_of(self, info: TopicInfo, data: bytes | None) -> Any:
        return None if data is None else self._value(info.key_format, info, data, is_key=True)

    def value_of(self, info: TopicInfo, data: bytes | None) -> Any:
        return None if data is None else self._value(info.value_format, info, data, is_key=False)

    def _value(self, format_: str, info: TopicInfo, data: bytes, *, is_key: bool) -> Any:
        if format_ == "KAFKA":
            return _unpacked(data, info.key_types[0][1] if is_key and info.key_types else "STRING")
        if format_ == "DELIMITED":
            return data.decode()
        if format_ == "JSON":
            return json.loads(data, parse_float=Decimal)
        return self._serde(format_, is_key).deserialize(info.topic, data)

    def _serde(self, format_: str, is_key: bool) -> RegistrySerde[Any]:
        made = {"AVRO": Avro, "PROTOBUF": Protobuf}[format_]
        serde: RegistrySerde[Any] = made(registry=self._registry, settings=LATEST)
        return serde.configured({}, is_key=is_key)


def _typed(value: Any, type_: str) -> Any:
    """Some cases write numbers as text."""
    return int(value) if isinstance(value, str) and type_ in ("INTEGER", "BIGINT") else value


def _packed(value: Any, type_: str) -> bytes:
    if type_ in PACKED:
        return struct.pack(PACKED[type_], float(value) if type_ == "DOUBLE" else int(value))
    return str(value).encode()


def _unpacked(data: bytes, type_: str) -> Any:
    return struct.unpack(PACKED[type_], data)[0] if type_ in PACKED else data.decode()


def avro_value(value: Any, schema: Any) -> Any:
    """By the schema: fields in its case, others left out, a MAP possibly as entries."""
    if isinstance(schema, list):
        schema = next((branch for branch in schema if branch != "null"), "null")
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record" and isinstance(value, dict):
        fields = {field["name"].upper(): field for field in schema["fields"]}
        known = {fields[name.upper()]["name"]: name for name in value if name.upper() in fields}
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: avro_value(value[given], types[name]) for name, given in known.items()}
    if kind == "array" and isinstance(value, dict):
        value = [{"key": name, "value": entry} for name, entry in value.items()]
    if kind == "array" and isinstance(value, list):
        return [avro_value(item, schema["items"]) for item in value]
    if kind == "map" and isinstance(value, dict):
        return {name: avro_value(entry, schema["values"]) for name, entry in value.items()}
    return float(value) if isinstance(value, Decimal) else value


def protobuf_value(value: Any, names: set[str]) -> Any:
    """The same by the names in a .proto file, which may be keys of a MAP within a field."""
    shaped = _in_case(value, names)
    if isinstance(shaped, dict):
        return {name: field_value for name, field_value in shaped.items() if name in names}
    return shaped


def _in_case(value: Any, names: set[str]) -> Any:
    """Field names in upper case if the schema has them so."""
    if isinstance(value, dict):
        return {
            name.upper() if name not in names and name.upper() in names else name: _in_case(
                field_value, names
            )
            for name, field_value in value.items()
        }
    if isinstance(value, list):
        return [_in_case(item, names) for item in value]
    return float(value) if isinstance(value, Decimal) else value
