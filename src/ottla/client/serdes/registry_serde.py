"""The common part of Avro, JsonSchema and Protobuf: which schema a record is written or read by.

Confluent's wire format (ottla.schemas.framing): the schema's id in front of the payload, or its
GUID in a header. Schemas are resolved once for each topic and type, or each id; after that, a
record costs a lookup in a dict. The languages' libraries are imported with the first record.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

from ottla.client.schema_registry_error import SchemaRegistryError
from ottla.client.serde import HeaderList, HeaderPairs, Serde, SerializationError
from ottla.client.serdes.contract_rules import WRITE, ContractRule, RuleSteps, domain_rules
from ottla.client.serdes.generic_values import GENERIC, CarriedSchema
from ottla.client.serdes.read_plan import Convert, ReadPlan, read_plan, subject_of
from ottla.client.serdes.serde_settings import (
    check_names,
    settings_of,
    with_own,
)
from ottla.errors import KafkaError
from ottla.extras import MissingExtra, install_command
from ottla.schemas.framing import (
    GUID_BYTES,
    ID_FRAME,
    KEY_HEADER,
    VALUE_HEADER,
    FramingError,
    RecordSchemaId,
    split_frame,
    with_guid,
    with_id,
)

if TYPE_CHECKING:
    from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
    from ottla.schemas.schema_types import ParsedSchema, Reference

T = TypeVar("T")
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], Any]

GUID_FRAME_BYTES: Final = 1 + GUID_BYTES
KEPT_MAX: Final = 1_000  # of serializers and deserializers each; the oldest is resolved again
_MISSING: Final = "serdes with a schema registry need more packages"


@dataclass(slots=True)
class ValueSchema:
    """The schema that a value carries. `record` names its Protobuf message."""

    text: str
    record: str = ""
    references: Sequence[Reference] = ()


@dataclass(slots=True)
class RegistrySerializer:
    prefix: bytes
    header: bytes  # empty if the registry gives no GUID
    encode: Encode
    schema: str
    expires_s: float | None


@dataclass(slots=True)
class RegistryDeserializer:
    decode: Decode
    schema: str


class RegistrySerde(Serde[T]):
    """`of` is a dataclass, a Pydantic model or a message class; `schema` is a text.

    `registry` is a URL or an `ottla.client.schema_registry.SchemaRegistry`; without it,
    `schema.registry.url` from `settings` or from the client's settings.
    """

    kind: ClassVar[str]
    uses_headers = True
    _own_registry: SchemaRegistry | None = None

    def __init__(
        self,
        of: type[T] | None = None,
        *,
        schema: str = "",
        references: Sequence[Reference] = (),
        registry: SchemaRegistry | str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        check_names(settings or {})
        self._type: Any = of
        self.schema = schema
        self.references = tuple(references)
        self._registry_given = registry
        self._given = dict(settings or {})
        self._is_key = False
        self._settings = settings_of(self._given, is_key=False)
        self._forget()

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> RegistrySerde[T]:
        registry = self._registry_given or ""
        own_url = registry if isinstance(registry, str) else registry.url
        given = with_own(self._given, own_url, settings)
        if is_key == self._is_key and given == self._given:
            return self
        made: RegistrySerde[T] = object.__new__(type(self))
        made.__dict__.update(self.__getstate__())
        made._given = given
        made._is_key = is_key
        made._settings = settings_of(given, is_key=is_key)
        made._forget()
        return made

    # Bytes

    def serialize(self, topic: str, value: T | None) -> bytes | None:
        """Always puts the id in front of the payload, because there are no headers here."""
        if value is None:
            return None
        writer = self._writer(topic, value)
        try:
            return writer.prefix + writer.encode(value)
        except Exception as error:
            self._unwritable(topic, writer, error)

    def serialize_with_headers(
        self, topic: str, headers: HeaderList, value: T | None
    ) -> bytes | None:
        if headers and any(pair[0] == self._header for pair in headers):
            # The header of the record that this one was made from: readers would believe it.
            headers[:] = [pair for pair in headers if pair[0] != self._header]
        if value is None or not self._settings.id_in_header:
            return self.serialize(topic, value)
        writer = self._writer(topic, value)
        if not writer.header:
            raise SerializationError(f"{topic}: the registry has no GUIDs, so no ids in headers")
        try:
            payload = writer.encode(value)
        except Exception as error:
            self._unwritable(topic, writer, error)
        headers.append((self._header, writer.header))
        return payload

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        if data is None:
            return None
        reader = self._readers.get(data[: ID_FRAME.size])
        if reader is not None:
            return self._read(topic, reader, data, ID_FRAME.size)
        reader = self._readers.get(data[:GUID_FRAME_BYTES])
        if reader is not None:
            return self._read(topic, reader, data, GUID_FRAME_BYTES)
        return self._first(topic, data, data, in_header=False)

    def deserialize_with_headers(
        self, topic: str, headers: HeaderPairs, data: bytes | None
    ) -> T | None:
        if data is None:
            return None
        if headers and self._settings.looks_at_headers:
            for name, named in headers:
                if name == self._header and named:
                    reader = self._readers.get(named)
                    if reader is None:
                        return self._first(topic, named, data, in_header=True)
                    return self._read(topic, reader, data, 0)
        return self.deserialize(topic, data)

    def _read(self, topic: str, reader: RegistryDeserializer, data: bytes, position: int) -> T:
        try:
            found: T = reader.decode(data, position)
            return found
        except Exception as error:
            raise SerializationError(
                f"{topic}: the {self._side} can't be read by {reader.schema}: {_words(error)}",
                reader.schema,
            ) from error

    def _first(self, topic: str, named: bytes, data: bytes, *, in_header: bool) -> T:
        """The first record of a schema."""
        try:
            name, position = split_frame(named)
        except FramingError as error:
            raise SerializationError(
                f"{topic}: the {self._side} names no schema: {error}"
            ) from None
        header = named if in_header else b""
        decode = self._asked(topic, str(name), lambda: self._decode(topic, name, header))
        reader = RegistryDeserializer(decode, str(name))
        found = self._read(topic, reader, data, 0 if in_header else position)
        _cache(self._readers, named if in_header else named[:position], reader)
        return found

    # Which schema

    def _writer(self, topic: str, value: Any) -> RegistrySerializer:
        of: Any = type(value)
        key = (topic, value.schema) if of in GENERIC else (topic, of)
        writer = self._writers.get(key)
        if writer is None or (writer.expires_s is not None and time.monotonic() > writer.expires_s):
            writer = self._asked(topic, "", lambda: self._opened(topic, value))
            _cache(self._writers, key, writer)
        return writer

    def _carried(self, value: Any) -> ValueSchema | None:
        """The schema that a value without a class carries, if it is of this language."""
        carried = value.schema if type(value) in GENERIC else None
        if carried is None or carried.kind != self.kind:
            return None
        return ValueSchema(carried.text, carried.record, carried.references)

    @property
    def _is_generic(self) -> bool:
        """Neither a class nor a schema was given: values carry their schemas."""
        return self._type is None and not self.schema

    def _opened(self, topic: str, value: Any) -> RegistrySerializer:
        own = self._schema_of(value)
        settings, registry = self._settings, self._registry
        if own is None and not settings.uses_given:
            raise SerializationError(
                f"no schema for a {type(value).__name__}: give {type(self).__name__} a class or a"
                " schema, set use.latest.version, or make the value of one that was read:"
                ' record | {"field": value}'
            )
        record = "" if own is None else own.record or self._record_name(own)
        subject = subject_of(registry, settings, topic, record, is_key=self._is_key)
        if own is None or settings.uses_given:
            found = self._given_schema(subject, own)
        else:
            references = self._registered_references(topic, own, value)
            ask = registry.register if settings.registers else registry.look_up
            found = ask(subject, self.kind, own.text, references, normalize=settings.normalize)
        parsed = registry.parsed(found)
        apply = self._rule_steps(topic, subject, domain_rules(found.rule_set, WRITE))
        indexes, encode = self._encoder(parsed, value, apply)
        lasts_s = settings.latest_ttl_s if settings.uses_given else None
        return RegistrySerializer(
            with_id(found.id, indexes),
            with_guid(found.guid, indexes) if found.guid else b"",
            encode,
            str(RecordSchemaId(found.id)),
            None if lasts_s is None else time.monotonic() + lasts_s,
        )

    def _record_name(self, own: ValueSchema) -> str:
        from ottla.client.schema_registry import RegisteredSchema
        from ottla.schemas.record_names import record_name

        schema = RegisteredSchema(0, self.kind, own.text, tuple(own.references))
        return record_name(self._registry.parsed(schema))

    def _given_schema(self, subject: str, own: ValueSchema | None) -> RegisteredSchema:
        settings, registry = self._settings, self._registry
        if settings.use_id is not None:
            found, strict = registry.by_id(settings.use_id, subject), settings.id_strict
            if not found.guid and settings.id_in_header:
                by_text = registry.look_up(subject, found.kind, found.text, found.references)
                found = replace(found, guid=by_text.guid)
        elif settings.use_guid:
            found, strict = registry.by_guid(settings.use_guid), settings.id_strict
        elif settings.use_metadata:
            found, strict = registry.with_metadata(subject, settings.use_metadata), False
        else:
            found, strict = registry.version(subject), settings.latest_strict
        if found.kind != self.kind:
            raise SerializationError(f"{subject}: the schema is {found.kind}, not {self.kind}")
        if strict and own is not None:
            self._check_readable(subject, found, own)
        return found

    def _check_readable(self, subject: str, registered: RegisteredSchema, own: ValueSchema) -> None:
        """Can a reader with the given schema read what a writer with our own writes?"""
        from ottla.schemas.compatibility.incompatibilities import incompatibilities
        from ottla.schemas.schema_types import parse

        texts = self._registry.referenced_texts(own.references or registered.references)
        written = parse(self.kind, own.text, texts)
        problems = incompatibilities("BACKWARD", self._registry.parsed(registered), [written])
        if problems:
            raise SerializationError(
                f"{subject}: {RecordSchemaId(registered.id)} can't take these values"
                f" ({problems[0]}). Without this check: latest.compatibility.strict=false"
            )

    def _registered_references(
        self, topic: str, own: ValueSchema, value: Any
    ) -> Sequence[Reference]:
        return own.references

    def _decode(self, topic: str, name: RecordSchemaId, header: bytes) -> Decode:
        registry = self._registry
        found = registry.by_guid(name.guid) if name.guid else registry.by_id(name.id)
        if found.kind != self.kind:
            raise SerializationError(f"it is {found.kind}, not {self.kind}")
        subject, plan = read_plan(registry, self._settings, topic, found, is_key=self._is_key)
        plan.apply = self._rule_steps(topic, subject, plan.rules)
        return self._decoder(found, header, plan)

    def _rule_steps(
        self, topic: str, subject: str, rules: Sequence[tuple[str, ContractRule]]
    ) -> Convert | None:
        if not rules:
            return None
        settings = self._settings
        return RuleSteps(
            rules,
            topic=topic,
            subject=subject,
            is_key=self._is_key,
            executors=settings.rule_executors,
            actions=settings.rule_actions,
        )

    def _asked(self, topic: str, schema: str, ask: Callable[[], Any]) -> Any:
        """Failures that depend on the record become a SerializationError; a registry that is down
        or denies access does not."""
        try:
            return ask()
        except SchemaRegistryError as error:
            if error.status in (401, 403, 429) or error.status >= 500:
                raise
            raise self._failure(topic, schema, error) from error
        except KafkaError:
            raise
        except MissingExtra:
            raise
        except ImportError as error:
            raise ImportError(f"{_MISSING}: {install_command('registry')} ({error})") from error
        except Exception as error:
            raise self._failure(topic, schema, error) from error
        finally:
            if self._own_registry is not None:
                self._own_registry.close()  # requests are rare: keep no connection open

    def _failure(self, topic: str, schema: str, error: Exception) -> SerializationError:
        by = f" by {schema}" if schema else ""
        return SerializationError(f"{topic}: the {self._side}{by}: {_words(error)}", schema)

    def _unwritable(self, topic: str, writer: RegistrySerializer, error: Exception) -> NoReturn:
        raise SerializationError(
            f"{topic}: the {self._side} can't be written by {writer.schema}: {_words(error)}",
            writer.schema,
        ) from error

    @property
    def _side(self) -> str:
        return "key" if self._is_key else "value"

    @property
    def _registry(self) -> SchemaRegistry:
        given = self._registry_given
        if given is not None and not isinstance(given, str):
            return given
        if self._own_registry is None:
            from ottla.client.schema_registry import SchemaRegistry

            self._own_registry = SchemaRegistry(given or "", self._given)
        return self._own_registry

    def _forget(self) -> None:
        self._header = KEY_HEADER if self._is_key else VALUE_HEADER
        self._own_registry = None
        self._writers: dict[tuple[str, type | CarriedSchema | None], RegistrySerializer] = {}
        self._readers: dict[bytes, RegistryDeserializer] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Spark's workers get the settings, and ask the registry themselves."""
        left_out = ("_own_registry", "_writers", "_readers", "_models")
        return {
            name: attribute for name, attribute in self.__dict__.items() if name not in left_out
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # Implemented by each language

    @abstractmethod
    def _schema_of(self, value: Any) -> ValueSchema | None:
        """The schema of a value; None if it is unknown."""

    @abstractmethod
    def _encoder(
        self, schema: ParsedSchema, value: Any, apply: Convert | None
    ) -> tuple[bytes, Encode]:
        """For values of this type, with what stands between id and payload. `apply` runs the rules
        on values as dicts and lists."""

    @abstractmethod
    def _decoder(self, registered: RegisteredSchema, header: bytes, plan: ReadPlan) -> Decode:
        """For payloads of this schema; `header` is the header that named it, if no prefix did."""


def _cache(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= KEPT_MAX:
        cache.clear()
    cache[key] = value


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
