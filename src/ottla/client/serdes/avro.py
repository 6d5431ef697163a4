"""Avro: binary Avro by schemas of a registry.

    Producer(servers, value=Avro(Order, registry="http://localhost:8081"))

`Avro(Order)` writes and reads instances of a dataclass or a Pydantic model; `Avro(schema=text)`
takes dicts, and reads by Avro's schema resolution into that schema; `Avro()` reads dicts as they
were written, and writes instances of any model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ottla.client.serdes.registry_serde import Decode, Encode, RegistrySerde, ValueSchema

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry
    from ottla.schemas.models.values import ModelValues
    from ottla.schemas.schema_types import ParsedSchema, Reference

T = TypeVar("T")


class Avro(RegistrySerde[T]):
    """`namespace` is that of the schema which a class becomes."""

    kind: ClassVar[str] = "AVRO"

    def __init__(
        self,
        of: type[T] | None = None,
        *,
        schema: str = "",
        namespace: str = "",
        references: Sequence[Reference] = (),
        registry: SchemaRegistry | str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            of, schema=schema, references=references, registry=registry, settings=settings
        )
        self.namespace = namespace

    def _schema_of(self, value: Any) -> ValueSchema | None:
        from ottla.schemas.models.avro_schema import avro_text
        from ottla.schemas.models.python_type import describe, is_model

        if self.schema:
            return ValueSchema(self.schema, _record_name(self.schema), self.references)
        of = self._type if self._type is not None else type(value)
        if self._type is None and not is_model(of):
            return None
        text = avro_text(describe(of), self.namespace)
        return ValueSchema(text, _record_name(text))

    def _encoder(self, schema: ParsedSchema, value: Any) -> tuple[bytes, Encode]:
        from ottla.schemas.avro.codec import AvroCodec

        encode = AvroCodec(schema).encode
        values = self._values(schema, type(value))
        if values is None:
            return b"", encode
        to_plain = values.to_plain
        return b"", lambda model: encode(to_plain(model))

    def _decoder(self, topic: str, schema: ParsedSchema, header: bytes) -> Decode:
        from ottla.schemas.avro.codec import AvroCodec

        reader = self._reader_schema(topic, schema)
        values = None if self._type is None else self._values(reader or schema, self._type)
        if values is None:
            return AvroCodec(schema, reader).decode
        decode = AvroCodec(schema, reader, record_names=values.has_named_unions).decode
        from_plain = values.from_plain
        return lambda data, position: from_plain(decode(data, position))

    def _reader_schema(self, topic: str, schema: ParsedSchema) -> ParsedSchema | None:
        """The schema that values are read into; None: the one that they were written by."""
        from ottla.schemas.schema_types import parse

        if self.schema:
            texts = self._registry.referenced_texts(self.references)
            return parse(self.kind, self.schema, texts)
        if self._settings.use_latest:
            record = schema.body.root.name
            subject = self._settings.subject_name(topic, self._is_key, record)
            return self._registry.parsed(self._registry.version(subject))
        return None

    def _values(self, schema: ParsedSchema, of: type) -> ModelValues | None:
        from ottla.schemas.models.python_type import describe, is_model
        from ottla.schemas.models.values import AVRO, ModelValues

        if not is_model(of) and of is not self._type:
            return None
        space = schema.body.root.space
        return ModelValues(describe(of), AVRO, lambda name: f"{space}.{name}" if space else name)


def _record_name(text: str) -> str:
    """The full name of the schema's record; nothing if it is no record."""
    found = json.loads(text)
    if not isinstance(found, dict) or "name" not in found:
        return ""
    name, space = str(found["name"]), str(found.get("namespace") or "")
    return name if "." in name or not space else f"{space}.{name}"
