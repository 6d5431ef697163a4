"""JsonConverter: JSON, with an envelope {"schema": ..., "payload": ...} or without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import orjson

from ottla.connect.config import ConfigDef, ConfigType, Importance, Width
from ottla.connect.converters.converter import NULL, Converter, SchemaAndValue, converter_config
from ottla.connect.converters.json_decoders import Decoder, JsonDecoders, decimals_in
from ottla.connect.converters.json_encoders import (
    Encoder,
    JsonEncoders,
    encode_schemaless,
    has_decimal,
)
from ottla.connect.converters.json_schema import schema_from_json, schema_to_json
from ottla.connect.data import Schema
from ottla.connect.errors import DataException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.validators import one_of_any_case

PLAIN: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
PREFIX: Final = b'{"schema":'
MIDDLE: Final = b',"payload":'
BRACE: Final = ord("}")


class JsonConverter(Converter):
    def config_def(self) -> ConfigDef:
        schemas, serialization = "Schemas", "Serialization"
        return (
            converter_config()
            .define("schemas.enable", ConfigType.BOOLEAN, True, Importance.HIGH,
                    "Whether each key and value is written and read with its schema.",
                    group=schemas, order=0, width=Width.MEDIUM, display_name="Enable Schemas")
            .define("schemas.cache.size", ConfigType.INT, 1000, Importance.HIGH,
                    "The maximum number of schemas in this converter's cache.",
                    group=schemas, order=1, width=Width.MEDIUM,
                    display_name="Schema Cache Size")
            .define("schema.content", ConfigType.STRING, None, Importance.HIGH,
                    "A schema for all messages, which are then plain JSON without an envelope. "
                    "Only with schemas.enable, and for sinks.",
                    group=schemas, order=2, width=Width.MEDIUM, display_name="Schema Content")
            .define("decimal.format", ConfigType.STRING, "BASE64", Importance.LOW,
                    "How decimals are written: BASE64 (exact) or NUMERIC (as JSON numbers).",
                    group=serialization, order=0, width=Width.MEDIUM,
                    display_name="Decimal Format", validator=one_of_any_case("NUMERIC", "BASE64"))
            .define("replace.null.with.default", ConfigType.BOOLEAN, True, Importance.LOW,
                    "Whether a null field is replaced by its default.",
                    group=serialization, order=1, width=Width.MEDIUM,
                    display_name="Replace null with default")
        )  # fmt: skip

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._enveloped = bool(settings["schemas.enable"])
        self._numeric = settings["decimal.format"].upper() == "NUMERIC"
        size = int(settings["schemas.cache.size"])
        replace_null = bool(settings["replace.null.with.default"])
        self._encoders = JsonEncoders(self._numeric, replace_null)
        self._decoders = JsonDecoders(replace_null)
        self._writing: SchemaCache[tuple[Encoder, bytes]] = SchemaCache(size)
        self._written: tuple[Schema, Encoder, bytes] | None = None
        """The last value's, because the next one usually has the same schema."""
        self._decoding: SchemaCache[tuple[Decoder, bool]] = SchemaCache(size)
        self._schemas: dict[bytes, Schema] = {}
        self._schemas_max = size
        self._last: tuple[bytes, Schema, Decoder] | None = None
        self._fixed = self._fixed_schema(settings["schema.content"])

    def _fixed_schema(self, content: str | None) -> Schema | None:
        if not content:
            return None
        try:
            return self._schema_of(orjson.loads(content))
        except orjson.JSONDecodeError as error:
            message = "Failed to parse schema in converter config due to serialization error: "
            raise DataException(message) from error

    # Writing.

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None:
            if value is None:
                return None
            payload = dumped_schemaless(value)
            return b'{"schema":null,"payload":%b}' % payload if self._enveloped else payload
        last = self._written
        if last is None or last[0] is not schema:
            made = self._writing.get(schema) or self._compiled(schema)
            self._written = last = (schema, *made)
        _, encode, prefix = last
        payload = dumped(encode(value), self._numeric)
        return prefix + payload + b"}" if self._enveloped else payload

    def _compiled(self, schema: Schema) -> tuple[Encoder, bytes]:
        # replace.null.with.default does not apply to the defaults within a schema.
        message = schema_to_json(schema, lambda inner, default: self._encoders.of(inner)(default))
        prefix = PREFIX + dumped(message, self._numeric) + MIDDLE
        return self._writing.put(schema, (self._encoders.of(schema), prefix))

    # Reading.

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        if not self._enveloped:
            return None, (loaded(data) if data else None)
        if self._fixed is not None:
            decode, exact = self._decoder(self._fixed)
            return self._fixed, decode(exactly(data) if exact else loaded(data))
        last = self._last
        if last is not None and data.startswith(last[0]) and data[-1] == BRACE:
            try:
                return last[1], last[2](orjson.loads(data[len(last[0]) : -1]))
            except orjson.JSONDecodeError:
                pass  # something follows the payload: parse the whole message
        return self._read_envelope(data)

    def _read_envelope(self, data: bytes) -> SchemaAndValue:
        envelope = loaded(data) if data else None
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataException(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may '
                "not contain additional fields. If you are trying to deserialize plain JSON data, "
                "set schemas.enable=false in your converter configuration."
            )
        schema = self._schema_of(envelope["schema"])
        if schema is None:
            return None, envelope["payload"]
        decode, exact = self._decoder(schema)
        if exact:
            return schema, decode(exactly(data)["payload"])
        value = decode(envelope["payload"])
        self._remember(data, schema, decode)
        return schema, value

    def _remember(self, data: bytes, schema: Schema, decode: Decoder) -> None:
        """Remember the start of this message: the next one probably has the same schema."""
        middle = data.find(MIDDLE)
        if not data.startswith(PREFIX) or middle < 0 or not data.endswith(b"}"):
            return
        try:
            same = self._schema_of(orjson.loads(data[len(PREFIX) : middle])) is schema
        except (orjson.JSONDecodeError, DataException):
            return  # ',"payload":' occurs within the schema
        if same:
            self._last = (data[: middle + len(MIDDLE)], schema, decode)

    def _schema_of(self, message: Any) -> Schema | None:
        if message is None:
            return None
        key = orjson.dumps(message)
        kept = self._schemas.get(key)
        if kept is not None:
            return kept
        schema = schema_from_json(message, lambda inner, default: self._decoders.of(inner)(default))
        assert schema is not None, "only null means no schema"
        if len(self._schemas) >= self._schemas_max:
            del self._schemas[next(iter(self._schemas))]
        self._schemas[key] = schema
        return schema

    def _decoder(self, schema: Schema) -> tuple[Decoder, bool]:
        kept = self._decoding.get(schema)
        if kept is not None:
            return kept
        made = (self._decoders.of(schema), decimals_in(schema))
        return self._decoding.put(schema, made)


FAILED: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DataException(FAILED + str(error)) from error


def exactly(data: bytes) -> Any:
    """Parsed with all digits of its numbers."""
    try:
        return json.loads(data, parse_float=Decimal)
    except ValueError as error:
        raise DataException(FAILED + str(error)) from error


def dumped(message: Any, numeric_decimals: bool = False) -> bytes:
    if numeric_decimals and has_decimal(message):
        return with_decimals(message)
    try:
        return orjson.dumps(message, option=PLAIN)
    except TypeError as error:
        prefix = "Converting Kafka Connect data to byte[] failed due to serialization error: "
        raise DataException(prefix + str(error)) from error


def dumped_schemaless(value: Any) -> bytes:
    try:
        data = orjson.dumps(value, option=PLAIN)
    except TypeError:  # bytes, keys other than strings, or values that JSON lacks
        return dumped(encode_schemaless(value))
    # orjson writes NaN as null.
    return dumped(encode_schemaless(value)) if b"null" in data else data


def with_decimals(message: Any) -> bytes:
    """As orjson writes it, except that decimals keep all their digits."""
    if isinstance(message, Decimal):
        return f"{message:f}".encode()
    if isinstance(message, dict):
        pairs = (orjson.dumps(key) + b":" + with_decimals(item) for key, item in message.items())
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(message, list):
        return b"[" + b",".join(with_decimals(item) for item in message) + b"]"
    return orjson.dumps(message)
