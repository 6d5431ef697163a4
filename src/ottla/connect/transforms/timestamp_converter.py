"""TimestampConverter: converts between string, Unix time, Date, Time and Timestamp."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import (
    DATE,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
    Type,
    date_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.logical_types import EPOCH_DAY, from_millis, to_millis
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
from ottla.connect.validators import one_of
from ottla.rows.java.date_format import DateFormat

PURPOSE: Final = "converting timestamp formats"
SCHEMAS: Final = {
    "string": STRING_SCHEMA,
    "unix": INT64_SCHEMA,
    "Date": date_schema(),
    "Time": time_schema(),
    "Timestamp": timestamp_schema(),
}
OPTIONAL_SCHEMAS: Final = {name: schema.as_optional() for name, schema in SCHEMAS.items()}
# How many of the unit make a millisecond, or how many milliseconds make one of the unit.
PER_MILLISECOND: Final = {"microseconds": 1000, "nanoseconds": 1_000_000, "milliseconds": 1}
MILLISECONDS: Final = {"seconds": 1000}


class TimestampConverter(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("field", ConfigType.STRING, "", Importance.HIGH,
                    "The field with the timestamp; empty if the whole value is the timestamp.")
            .define("target.type", ConfigType.STRING, importance=Importance.HIGH,
                    doc="The target: string, unix, Date, Time or Timestamp.",
                    validator=one_of("string", "unix", "Date", "Time", "Timestamp"))
            .define("format", ConfigType.STRING, "", Importance.MEDIUM,
                    "The format of strings, in UTC: a pattern of Java's SimpleDateFormat.")
            .define("unix.precision", ConfigType.STRING, "milliseconds", Importance.LOW,
                    "The unit of a Unix time: seconds, milliseconds, microseconds, nanoseconds. "
                    "Fractions of a millisecond are truncated.",
                    validator=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"))
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._field = str(settings["field"])
        self._target = str(settings["target.type"])
        self._precision = str(settings["unix.precision"])
        self._fill = bool(settings["replace.null.with.default"])
        pattern = str(settings["format"])
        if self._target == "string" and not pattern.strip():
            raise ConfigException(
                "TimestampConverter requires format option to be specified when using string "
                "timestamps"
            )
        self._format = _format_of(pattern) if pattern.strip() else None
        self._plans: SchemaCache[StructPlan] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, self._schemaless(value))
        if not self._field:
            target = self._target_schema(schema.optional)
            return self.changed(record, target, self._converted(value, type_of(schema)))
        struct = None if value is None else require_struct(value, PURPOSE)
        plan = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        made = None if struct is None else self._of_struct(struct, plan)
        return self.changed(record, plan.schema, made)

    def _schemaless(self, value: Any) -> Any:
        if value is None or not self._field:
            return self._converted(value, None)
        updated = dict(require_map(value, PURPOSE))
        updated[self._field] = self._converted(updated.get(self._field), None)
        return updated

    def _target_schema(self, optional: bool) -> Schema:
        return (OPTIONAL_SCHEMAS if optional else SCHEMAS)[self._target]

    def _plan(self, schema: Schema) -> StructPlan:
        fields = [
            (f.name, self._target_schema(f.schema.optional) if f.name == self._field else f.schema)
            for f in schema.fields
        ]
        made = with_fields(schema, fields).replace(optional=schema.optional)
        plan = StructPlan(made, schema if self._fill else None)
        if schema.default is not None:
            plan.schema = made.replace(default=self._of_struct(schema.default, plan))
        return plan

    def _of_struct(self, struct: Struct, plan: StructPlan) -> Struct:
        values = filled(struct, plan.defaults)
        field = struct.schema.field(self._field)
        if field is not None:
            values[field.index] = self._converted(values[field.index], type_of(field.schema))
        return Struct.of(plan.schema, values)

    def _converted(self, value: Any, source: str | None) -> Any:
        if value is None:
            return None
        moment = self._moment(value, source or inferred(value))
        if self._target == "string":
            assert self._format is not None, "configure asks for a format"
            return self._format.format(moment)
        if self._target == "unix":
            return self._unix(to_millis(moment))
        return {"Date": moment.date, "Time": moment.time}.get(self._target, lambda: moment)()

    def _unix(self, millis: int) -> int:
        if self._precision in MILLISECONDS:
            return _divided(millis, MILLISECONDS[self._precision])
        return millis * PER_MILLISECOND[self._precision]

    def _moment(self, value: Any, source: str) -> datetime.datetime:
        if source == "string":
            return self._read(value)
        if source == "unix":
            if isinstance(value, bool) or not isinstance(value, int):
                raise _unexpected("Unix timestamp to be a Long", value)
            if self._precision in MILLISECONDS:
                return from_millis(value * MILLISECONDS[self._precision])
            return from_millis(_divided(value, PER_MILLISECOND[self._precision]))
        if isinstance(value, datetime.datetime):
            return from_millis(to_millis(value))
        if isinstance(value, datetime.date):
            return datetime.datetime.combine(value, datetime.time(), datetime.UTC)
        if isinstance(value, datetime.time):
            return datetime.datetime.combine(EPOCH_DAY, value, datetime.UTC)
        raise _unexpected(f"{source} to be a {source.lower()}", value)

    def _read(self, value: Any) -> datetime.datetime:
        if not isinstance(value, str):
            raise _unexpected("string timestamp to be a String", value)
        if self._format is None:
            raise ConfigException(
                "TimestampConverter requires format option to be specified when using string "
                "timestamps"
            )
        try:
            return self._format.parse(value)
        except (ValueError, OverflowError):
            raise DataException(
                f"Could not parse timestamp: value ({value}) does not match pattern "
                f"({self._format.pattern})"
            ) from None


def _divided(number: int, by: int) -> int:
    """Towards zero, as Java divides."""
    return number // by if number >= 0 else -(-number // by)


def _unexpected(expected: str, value: Any) -> DataException:
    return DataException(f"Expected {expected}, but found {class_name(value)}")


def _format_of(pattern: str) -> DateFormat:
    try:
        return DateFormat(pattern)
    except ValueError:
        raise ConfigException(
            "TimestampConverter requires a SimpleDateFormat-compatible pattern for string "
            f"timestamps: {pattern}"
        ) from None


def type_of(schema: Schema) -> str:
    named = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}.get(schema.name or "")
    if named is not None:
        return named
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise ConnectException(
        f"Schema {schema!r} does not correspond to a known timestamp type format"
    )


def inferred(value: Any) -> str:
    kinds: list[tuple[Callable[[Any], bool], str]] = [
        (lambda v: isinstance(v, datetime.date | datetime.time), "Timestamp"),
        (lambda v: isinstance(v, int) and not isinstance(v, bool), "unix"),
        (lambda v: isinstance(v, str), "string"),
    ]
    for is_one, name in kinds:
        if is_one(value):
            return name
    raise DataException(
        f"TimestampConverter does not support {class_name(value)} objects as timestamps"
    )


class TimestampConverterKey(TimestampConverter):
    of_key = True
