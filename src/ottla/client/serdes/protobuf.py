"""Protobuf: binary Protobuf with schemas from a registry.

    Producer(servers, value=Protobuf(OrderMessage, registry="http://localhost:8081"))

`Protobuf(OrderMessage)` writes and reads messages of a generated class, whose imports become
references; `Protobuf(Order)` instances of a dataclass or a Pydantic model;
`Protobuf(schema=text, message="Order")` takes dicts; `Protobuf()` reads any message as a dict that
carries its schema, and can be written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ottla.client.serdes.generic_values import CarriedSchema, GenericRecord
from ottla.client.serdes.read_plan import Convert, ReadPlan, chained
from ottla.client.serdes.registry_serde import Decode, Encode, RegistrySerde, ValueSchema
from ottla.schemas.framing import RecordSchemaId, indexes_bytes, read_indexes, split_frame

if TYPE_CHECKING:
    from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
    from ottla.schemas.models.values import ModelValues
    from ottla.schemas.schema_types import ParsedSchema, Reference

T = TypeVar("T")


class Protobuf(RegistrySerde[T]):
    """`message` is the schema's message that dicts become; by default the first.

    `package` is that of the .proto file made from a class.
    """

    kind: ClassVar[str] = "PROTOBUF"

    def __init__(
        self,
        of: type[T] | None = None,
        *,
        schema: str = "",
        message: str = "",
        package: str = "",
        references: Sequence[Reference] = (),
        registry: SchemaRegistry | str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            of, schema=schema, references=references, registry=registry, settings=settings
        )
        self.message = message
        self.package = package

    def _schema_of(self, value: Any) -> ValueSchema | None:
        from ottla.schemas.models.proto_file import proto_file
        from ottla.schemas.models.python_type import describe, is_model
        from ottla.schemas.protobuf.message_types import message_name
        from ottla.schemas.protobuf.schema import read_file

        if _is_message(type(value)):
            return ValueSchema(_file_text(value.DESCRIPTOR.file), value.DESCRIPTOR.full_name)
        if self.schema:
            text, references = self.schema, self.references
        else:
            of = self._type if self._type is not None else type(value)
            if _is_message(of):
                raise TypeError(f"a {of.__name__} is wanted, not a {type(value).__name__}")
            if not is_model(of):
                return self._carried(value)
            text, references = proto_file(describe(of), self.package), ()
        file = read_file(text)
        name = self.message or message_name(file, (0,))
        full = name if not file.package or "." in name else f"{file.package}.{name}"
        return ValueSchema(text, full, references)

    def _registered_references(
        self, topic: str, own: ValueSchema, value: Any
    ) -> Sequence[Reference]:
        """The imports of a generated class's file are registered before it."""
        if _is_message(type(value)):
            return self._imports(topic, value.DESCRIPTOR.file)
        return own.references

    def _imports(self, topic: str, file: Any) -> list[Reference]:
        from ottla.schemas.protobuf.known_types import KNOWN_FILES
        from ottla.schemas.schema_types import Reference

        settings = self._settings
        ask = self._registry.register if settings.registers else self._registry.look_up
        found: list[Reference] = []
        for imported in file.dependencies:
            if imported.name in KNOWN_FILES:
                continue
            below = self._imports(topic, imported)
            name = settings.reference_subject_name
            subject = name(topic, self._is_key, imported.name) if name else imported.name
            made = ask(
                subject, self.kind, _file_text(imported), below, normalize=settings.normalize
            )
            found.append(Reference(imported.name, subject, made.version))
        return found

    def _encoder(
        self, schema: ParsedSchema, value: Any, apply: Convert | None
    ) -> tuple[bytes, Encode]:
        from ottla.schemas.protobuf.message_types import MessageTypes, message_indexes
        from ottla.schemas.protobuf.values import MessageValues

        own = self._schema_of(value)
        file = schema.body.file
        name = own.record if own is not None else self.message
        indexes = message_indexes(file, name) if name else (0,)
        if _is_message(type(value)) and apply is None:
            return indexes_bytes(indexes), _serialized
        messages = MessageValues(MessageTypes(schema).by_indexes(indexes))
        from_dict, values = messages.from_dict, self._values(type(value))
        to_plain = None if values is None else values.to_plain
        if _is_message(type(value)):
            to_plain = MessageValues(type(value)).to_dict
        to_plain = chained(to_plain, apply)
        if to_plain is None:
            return indexes_bytes(indexes), lambda plain: _serialized(from_dict(plain))
        convert = to_plain
        return indexes_bytes(indexes), lambda model: _serialized(from_dict(convert(model)))

    def _decode(self, topic: str, name: RecordSchemaId, header: bytes) -> Decode:
        if self._type is not None and _is_message(self._type):
            # A generated class needs no schema to read: no request to the registry.
            return _class_decoder(self._type, has_indexes=not header)
        return super()._decode(topic, name, header)

    def _decoder(self, registered: RegisteredSchema, header: bytes, plan: ReadPlan) -> Decode:
        from ottla.schemas.protobuf.message_types import MessageTypes
        from ottla.schemas.protobuf.values import MessageValues

        types = MessageTypes(self._registry.parsed(registered))
        made: dict[tuple[int, ...], tuple[MessageValues, CarriedSchema | None]] = {}
        is_generic, apply = self._is_generic, plan.apply
        values = None if self._type is None else self._values(self._type)
        of_header = read_indexes(header, split_frame(header)[1])[0] if header else None

        def decode(data: bytes, position: int) -> Any:
            indexes = of_header
            if indexes is None:
                indexes, position = read_indexes(data, position)
            if indexes not in made:
                message = types.by_indexes(indexes)
                name = message.DESCRIPTOR.full_name
                carried = CarriedSchema(self.kind, registered.text, registered.references, name)
                made[indexes] = (MessageValues(message), carried if is_generic else None)
            messages, carrier = made[indexes]
            plain = messages.to_dict(messages.message_class.FromString(data[position:]))
            if apply is not None:
                plain = apply(plain)
            if carrier is not None:
                return GenericRecord(plain, carrier)
            return plain if values is None else values.from_plain(plain)

        return decode

    def _values(self, of: type) -> ModelValues | None:
        from ottla.schemas.models.python_type import describe, is_model
        from ottla.schemas.models.values import PROTOBUF, ModelValues

        return ModelValues(describe(of), PROTOBUF, str) if is_model(of) else None


def _is_message(of: Any) -> bool:
    return hasattr(of, "DESCRIPTOR") and hasattr(of, "SerializeToString")


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _class_decoder(of: Any, *, has_indexes: bool) -> Decode:
    from_string = of.FromString

    def decode(data: bytes, position: int) -> Any:
        if has_indexes:
            # Most records are of their file's first message, which is a single 0.
            if data[position : position + 1] == b"\0":
                position += 1
            else:
                position = read_indexes(data, position)[1]
        return from_string(data[position:])

    return decode


def _file_text(file: Any) -> str:
    """A file of generated classes as .proto text."""
    from google.protobuf import descriptor_pb2

    from ottla.schemas.protobuf.descriptor_reader import file_of_descriptor
    from ottla.schemas.protobuf.text import proto_text

    return proto_text(
        file_of_descriptor(descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb))
    )
