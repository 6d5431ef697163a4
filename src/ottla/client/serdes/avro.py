"""Avro: binary Avro with schemas from a registry.

    Producer(servers, value=Avro(Order, registry="http://localhost:8081"))

`Avro(Order)` writes and reads instances of a dataclass or a Pydantic model; `Avro(schema=text)`
takes dicts, and reads by Avro's schema resolution into that schema; `Avro()` reads dicts as they
were written, which carry their schema (generic_values.py), and writes these, instances of any
model, text, numbers, booleans and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ottla.client.serdes.avro_records import RecordTree
from ottla.client.serdes.generic_values import (
    GENERIC,
    SCALARS,
    CarriedSchema,
    GenericList,
    carrying,
)
from ottla.client.serdes.read_plan import Convert, ReadPlan, chained
from ottla.client.serdes.registry_serde import Decode, Encode, RegistrySerde, ValueSchema

if TYPE_CHECKING:
    from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
    from ottla.schemas.models.values import ModelValues
    from ottla.schemas.schema_types import ParsedSchema, Reference

T = TypeVar("T")


class Avro(RegistrySerde[T]):
    """`namespace` is that of the schema made from a class."""

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
            return ValueSchema(self.schema, references=self.references)
        of = self._type if self._type is not None else type(value)
        if self._type is None and not is_model(of) and of not in SCALARS:
            return self._carried(value)
        return ValueSchema(avro_text(describe(of), self.namespace))

    def _encoder(
        self, schema: ParsedSchema, value: Any, apply: Convert | None
    ) -> tuple[bytes, Encode]:
        from ottla.schemas.avro.codec import AvroCodec

        encode = AvroCodec(schema).encode
        values = self._values(schema, type(value))
        branches = None
        if type(value) in GENERIC:
            branches = RecordTree(schema.body.root, schema.text).to_plain
            if type(value) is GenericList and branches is None:
                branches = list  # fastavro accepts no other type
        to_plain = chained(None if values is None else values.to_plain, apply, branches)
        return b"", encode if to_plain is None else lambda model: encode(to_plain(model))

    def _decoder(self, registered: RegisteredSchema, header: bytes, plan: ReadPlan) -> Decode:
        from ottla.schemas.avro.codec import AvroCodec

        schema = self._registry.parsed(registered)
        if self._is_generic:
            return self._generic_decoder(registered, schema, plan)
        reader = self._reader_schema(plan)
        values = None if self._type is None else self._values(reader or schema, self._type)
        named = values is not None and values.has_named_unions
        by = None if plan.migrates else reader
        decode = AvroCodec(schema, by, record_names=named).decode
        from_plain = chained(plan.apply, None if values is None else values.from_plain)
        if from_plain is None:
            return decode
        return lambda data, position: from_plain(decode(data, position))

    def _generic_decoder(
        self, registered: RegisteredSchema, schema: ParsedSchema, plan: ReadPlan
    ) -> Decode:
        from ottla.schemas.avro.codec import AvroCodec

        reader = None if plan.latest is None else self._registry.parsed(plan.latest)
        by, shape = plan.latest or registered, (reader or schema).body.root
        tree = RecordTree(shape, by.text, by.references)
        by_reader = None if plan.migrates else reader
        decode = AvroCodec(schema, by_reader, record_names=tree.has_choice).decode
        from_plain = chained(plan.apply, tree.from_plain)
        if shape.kind == "record" and from_plain is not None:
            convert = from_plain
            return lambda data, position: convert(decode(data, position))
        carried = CarriedSchema(self.kind, by.text, by.references)

        def read(data: bytes, position: int) -> Any:
            plain = decode(data, position)
            if from_plain is not None and plain is not None:
                plain = from_plain(plain)
            return carrying(plain, carried)

        return read

    def _reader_schema(self, plan: ReadPlan) -> ParsedSchema | None:
        """The schema that values are resolved into; None: the writer's."""
        from ottla.schemas.schema_types import parse

        if self.schema:
            texts = self._registry.referenced_texts(self.references)
            return parse(self.kind, self.schema, texts)
        return None if plan.latest is None else self._registry.parsed(plan.latest)

    def _values(self, schema: ParsedSchema, of: type) -> ModelValues | None:
        from ottla.schemas.models.python_type import describe, is_model
        from ottla.schemas.models.values import AVRO, ModelValues

        if not is_model(of) and of is not self._type:
            return None
        space = schema.body.root.space
        return ModelValues(describe(of), AVRO, lambda name: f"{space}.{name}" if space else name)
