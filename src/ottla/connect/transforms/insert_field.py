"""InsertField: adds metadata of the record, or a static value, as fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.data import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    ConnectRecord,
    Schema,
    SinkRecord,
    Struct,
    timestamp_schema,
)
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.logical_types import from_millis
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    StructPlan,
    class_name,
    filled,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)

PURPOSE: Final = "field insertion"
OPTIONALITY: Final = (
    "A name that ends with ! is a required field, with ? an optional one (default)."
)


class Insertion(NamedTuple):
    """One field: its name, its schema, and its value for a record, with a schema and without."""

    name: str
    schema: Schema
    typed: Callable[[ConnectRecord], Any]
    untyped: Callable[[ConnectRecord], Any]


def offset_of(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        raise DataException(
            f"Only SinkRecord supported for [{PURPOSE}], found: {class_name(record)}"
        )
    return record.offset


def moment_of(record: ConnectRecord) -> Any:
    return None if record.timestamp is None else from_millis(record.timestamp)


# Setting, metadata, schema. The order is Kafka's, because it is the order of the new fields.
METADATA: Final = (
    ("topic.field", "topic", STRING_SCHEMA, lambda record: record.topic),
    ("partition.field", "partition", INT32_SCHEMA, lambda record: record.partition),
    ("offset.field", "offset (of sinks only)", INT64_SCHEMA, offset_of),
    ("timestamp.field", "timestamp", timestamp_schema(), moment_of),
)


class InsertField(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef()
        for name, what, _, _ in METADATA:
            doc = f"Field for the record's {what}. {OPTIONALITY}"
            config.define(name, ConfigType.STRING, None, doc=doc)
        config.define("static.field", ConfigType.STRING, None,
                      doc=f"Field for the static value. {OPTIONALITY}")  # fmt: skip
        config.define("static.value", ConfigType.STRING, None, doc="The static value.")
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._insertions = [
            _insertion(settings[name], schema, value)
            for name, _, schema, value in METADATA
            if settings[name] is not None
        ]
        static, text = settings["static.field"], settings["static.value"]
        if static is not None:
            self._insertions.append(_insertion(static, STRING_SCHEMA, lambda record: text))
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if static is not None and text is None:
            what = f"No value specified for static field: {static}"
            raise ConfigException.of("static.value", None, what)
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: SchemaCache[StructPlan] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            return self.changed(record, None, self._schemaless(record, value))
        struct = require_struct(value, PURPOSE)
        schema = struct.schema
        plan = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        values = filled(struct, plan.defaults)
        values += [insertion.typed(record) for insertion in self._insertions]
        return self.changed(record, plan.schema, Struct.of(plan.schema, values))

    def _plan(self, schema: Schema) -> StructPlan:
        fields = [(field.name, field.schema) for field in schema.fields]
        fields += [(insertion.name, insertion.schema) for insertion in self._insertions]
        return StructPlan(with_fields(schema, fields), schema if self._fill else None)

    def _schemaless(self, record: ConnectRecord, value: Any) -> dict[str, Any]:
        updated = dict(require_map(value, PURPOSE))
        for insertion in self._insertions:
            inserted = insertion.untyped(record)
            if inserted is not None:
                updated[insertion.name] = inserted
        return updated


def _insertion(spec: str, schema: Schema, value: Callable[[Any], Any]) -> Insertion:
    required = spec.endswith("!")
    name = spec[:-1] if spec.endswith(("!", "?")) else spec
    typed = schema if required else schema.as_optional()
    # Without a schema the timestamp stays a number.
    untyped = (lambda record: record.timestamp) if value is moment_of else value
    return Insertion(name, typed, value, untyped)


class InsertFieldKey(InsertField):
    of_key = True
