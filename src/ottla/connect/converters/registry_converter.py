"""What the converters with a schema registry share: settings, subjects, wire format, errors.

The subclass for a language translates Connect schemas into it, and compiles functions that encode
and decode values by a schema of the registry. Every request to the registry is made once per
schema, and its result is cached.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from ottla.client.serde import SerializationError
from ottla.client.serdes.contract_rules import READ, WRITE, refuse_rules
from ottla.client.serdes.subject_names import strategy_of, topic_name
from ottla.connect.config import ConfigDef
from ottla.connect.converters.converter import NULL, Converter, SchemaAndValue
from ottla.connect.converters.registry_config import registry_config
from ottla.connect.data import Schema, Type
from ottla.connect.errors import ConfigException, DataException, RetriableException
from ottla.connect.schema_cache import SchemaCache
from ottla.errors import KafkaError
from ottla.schemas.compatibility.incompatibilities import incompatibilities
from ottla.schemas.framing import ID_FRAME, ID_MAGIC, FramingError, RecordSchemaId, split_frame
from ottla.schemas.schema_types import InvalidSchema, ParsedSchema, Reference, parse

Encode = Callable[[Any], bytes]
Read = Callable[[bytes, int], SchemaAndValue]
NOT_FOUND: Final = 404
SERVER_ERROR: Final = 500
TOPICS_MAX: Final = 1000
REFUSALS: Final = (
    InvalidSchema,
    SchemaRegistryError,
    KafkaError,
    SerializationError,
    DataException,
)
NO_SCHEMA: Final = Schema(Type.STRUCT, name="none")  # the key of values without a schema


class SchemaText(NamedTuple):
    """A Connect schema in a converter's language. `name` is used by the record name strategies."""

    text: str
    name: str | None = None
    references: tuple[Reference, ...] = ()


class ValueWriter(NamedTuple):
    """For one topic and one Connect schema. After `until` the latest version is looked up again."""

    prefix: bytes
    encode: Encode
    until: float


class RegistryConverter(Converter):
    kind: ClassVar[str]
    language: ClassVar[str]  # as Confluent's messages call it
    reads_schema_headers = True

    # Implemented for each language

    @abstractmethod
    def language_config(self, config: ConfigDef) -> ConfigDef:
        """The language's settings, in addition to the shared ones."""

    @abstractmethod
    def set_up(self, settings: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def schema_text(self, schema: Schema | None) -> SchemaText:
        """The schema to register for values of this Connect schema."""

    @abstractmethod
    def encoder(self, schema: Schema | None, written: ParsedSchema) -> Encode:
        """Encodes values of the Connect schema by the registered schema `written`."""

    @abstractmethod
    def reader(self, parsed: ParsedSchema, version: int | None) -> Read:
        """Decodes bytes that were written with a schema, from a position on."""

    @abstractmethod
    def record_name(self, parsed: ParsedSchema) -> str | None:
        """The full name of the record that a schema defines."""

    # Shared

    def config_def(self) -> ConfigDef:
        return self.language_config(registry_config())

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._is_key = settings["converter.type"] == "key"
        half = "key" if self._is_key else "value"
        self._subject = strategy_of(settings[f"{half}.subject.name.strategy"])
        self._auto_register: bool = settings["auto.register.schemas"]
        self._schema_id: int = settings["use.schema.id"]
        self._latest: bool = settings["use.latest.version"]
        self._strict: bool = settings["latest.compatibility.strict"]
        self._latest_ttl_s: int = settings["latest.cache.ttl.sec"]
        self._normalize: bool = settings["normalize.schemas"]
        self._size: int = settings["schemas.cache.size"]
        try:
            self._registry = SchemaRegistry(",".join(settings["schema.registry.url"]), props)
        except (KafkaError, ValueError) as error:
            raise ConfigException(str(error)) from error
        self._writers: dict[str, SchemaCache[ValueWriter]] = {}
        self._last: tuple[str, Schema | None, ValueWriter] | None = None
        """The last value's, because the next one usually has the same schema."""
        self._readers: dict[tuple[str, RecordSchemaId], Read] = {}
        self.set_up(settings)

    def close(self) -> None:
        self._registry.close()

    # Writing

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        last = self._last
        if last is None or last[1] is not schema or last[0] != topic or last[2].until < _now():
            last = self._last = (topic, schema, self._writer(topic, schema))
        writer = last[2]
        try:
            return writer.prefix + writer.encode(value)
        except DataException:
            raise
        except Exception as error:
            raise DataException(f"{self._failure('serialize', topic)}{error}") from error

    def _writer(self, topic: str, schema: Schema | None) -> ValueWriter:
        key = schema if schema is not None else NO_SCHEMA
        cache = self._writers.get(topic)
        if cache is None:
            if len(self._writers) >= TOPICS_MAX:
                del self._writers[next(iter(self._writers))]
            cache = self._writers[topic] = SchemaCache(self._size)
        found = cache.get(key)
        if found is not None and found.until >= _now():
            return found
        try:
            return cache.put(key, self._new_writer(topic, schema))
        except REFUSALS as error:
            raise self._refused("serialize", topic, error) from error

    def _new_writer(self, topic: str, schema: Schema | None) -> ValueWriter:
        own = self.schema_text(schema)
        texts = self._registry.referenced_texts(own.references)
        parsed = parse(self.kind, own.text, texts)
        subject = self._subject(topic, self._is_key, own.name or "")
        forever = float("inf")
        if not self._auto_register and (self._schema_id >= 0 or self._latest):
            if self._schema_id >= 0:
                registered = self._registry.by_id(self._schema_id, subject)
                until = forever
            else:
                registered = self._registry.version(subject)
                until = forever if self._latest_ttl_s < 0 else _now() + self._latest_ttl_s
            written = self._registry.parsed(registered)
            self._check(subject, registered, written, parsed)
            refuse_rules(registered.rule_set, WRITE)
            return ValueWriter(_prefix(registered.id), self.encoder(schema, written), until)
        ask = self._registry.register if self._auto_register else self._registry.look_up
        registered = ask(subject, self.kind, own.text, own.references, normalize=self._normalize)
        refuse_rules(registered.rule_set, WRITE)
        return ValueWriter(_prefix(registered.id), self.encoder(schema, parsed), forever)

    def _check(
        self, subject: str, registered: RegisteredSchema, written: ParsedSchema, own: ParsedSchema
    ) -> None:
        if written.kind != self.kind:
            raise DataException(f"Schema {registered.id} is {written.kind}, not {self.kind}")
        problems = incompatibilities("BACKWARD", written, [own]) if self._strict else []
        if problems:
            raise DataException(
                f"Incompatible schema: schema id {registered.id} of {subject} cannot read data of"
                f" the connector's schema: {problems[0]} Set latest.compatibility.strict to false"
                " to write with it nevertheless"
            )

    # Reading

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            name, position = split_frame(data)
        except FramingError as error:
            raise DataException(f"{self._failure('deserialize', topic)}{error}") from error
        read = self._readers.get((topic, name))
        if read is None:
            read = self._find_reader(topic, name)
        try:
            return read(data, position)
        except Exception as error:
            raise DataException(f"{self._failure('deserialize', topic, name)}{error}") from error

    def _find_reader(self, topic: str, name: RecordSchemaId) -> Read:
        try:
            read = self._new_reader(topic, name)
        except REFUSALS as error:
            raise self._refused("deserialize", topic, error, name) from error
        if len(self._readers) >= self._size:
            del self._readers[next(iter(self._readers))]
        self._readers[topic, name] = read
        return read

    def _new_reader(self, topic: str, name: RecordSchemaId) -> Read:
        if name.guid:
            registered = self._registry.by_guid(name.guid)
        else:
            registered = self._registry.by_id(name.id, topic_name(topic, self._is_key, ""))
        if registered.kind != self.kind:
            raise DataException(
                f"the schema is {registered.kind}, and this converter reads {self.kind}"
            )
        refuse_rules(registered.rule_set, READ)
        parsed = self._registry.parsed(registered)
        subject = self._subject(topic, self._is_key, self.record_name(parsed) or "")
        return self.reader(parsed, self._version(subject, registered))

    def _version(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The schema's version in the subject, if any: the version of the Connect schema."""
        try:
            found = self._registry.look_up(subject, schema.kind, schema.text, schema.references)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
            return None  # a schema of another subject, or a deleted one: it can still be used
        return found.version

    # Failures

    def _failure(self, verb: str, topic: str, name: RecordSchemaId | None = None) -> str:
        towards = "from" if verb == "serialize" else "to"
        message = f"Failed to {verb} data for topic {topic} {towards} {self.language}: "
        return message if name is None else f"{message}{name}: "

    def _refused(
        self, verb: str, topic: str, error: Exception, name: RecordSchemaId | None = None
    ) -> Exception:
        """Retriable if the registry is unavailable; a rejection is permanent."""
        message = f"{self._failure(verb, topic, name)}{error}"
        if isinstance(error, KafkaError):
            return RetriableException(message)
        if isinstance(error, SchemaRegistryError) and error.status >= SERVER_ERROR:
            return RetriableException(message)
        return DataException(message)


def _prefix(id: int) -> bytes:
    return ID_FRAME.pack(ID_MAGIC, id)


_now = time.monotonic
