"""Cast: converts fields, or the whole key or value, to another primitive type."""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct, Type
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.logical_types import encode_logical
from ottla.connect.schema import DECIMAL, INTEGER_BITS, LOGICAL_TYPES, PRIMITIVE
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    StructPlan,
    basics_of,
    filled,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)
from ottla.connect.values import date_text
from ottla.rows.java.text import float32, java_text

PURPOSE: Final = "cast types"
INPUTS: Final = [type for type in Type if type in PRIMITIVE]
PLAIN: Final = frozenset(INPUTS) - {Type.BYTES}
OUTPUTS: Final = [type for type in INPUTS if type is not Type.BYTES]


def parse_spec(mappings: list[str]) -> dict[str | None, Type]:
    """Field -> type; the key None stands for the whole value."""
    casts: dict[str | None, Type] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        if len(parts) > 2:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        casts[parts[0].strip() if len(parts) == 2 else None] = _output(parts[-1].strip())
    if None in casts and len(mappings) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only "
            "specify a single cast in their spec"
        )
    return casts


def _output(name: str) -> Type:
    try:
        type = Type[name.upper()]
    except KeyError:
        raise ConfigException(f"Invalid type found in casting spec: {name}") from None
    if type not in OUTPUTS:
        raise ConfigException(
            f"Cast transformation does not support casting to {type}; supported types are "
            f"{java_text(OUTPUTS)}"
        )
    return type


def _check_spec(name: str, value: Any) -> None:
    if not value:
        raise ConfigException("Must specify at least one field to cast.")
    parse_spec(value)


class Cast(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef().define(
            "spec",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="field1:type,field2:type, or one type for the whole value. Types are int8, int16, "
            "int32, int64, float32, float64, boolean and string; bytes can only become strings.",
            validator=_check_spec,
        )
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        casts = parse_spec(settings["spec"])
        self._whole = casts.pop(None, None)
        self._casts = {name: type for name, type in casts.items() if name is not None}
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: SchemaCache[CastPlan] = SchemaCache()

    def apply(self, record: R) -> R | None:
        value, schema = self.value_of(record), self.schema_of(record)
        if value is None:
            return record
        if schema is None:
            return self.changed(record, None, self._schemaless(value))
        plan = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        if self._whole is not None:
            return self.changed(record, plan.schema, cast(schema, value, self._whole))
        struct = require_struct(value, PURPOSE)
        return self.changed(record, plan.schema, plan.apply(struct))

    def _schemaless(self, value: Any) -> Any:
        if self._whole is not None:
            return cast(None, value, self._whole)
        updated = dict(require_map(value, PURPOSE))
        for name, type in self._casts.items():
            updated[name] = cast(None, updated.get(name), type)
        return updated

    def _plan(self, schema: Schema) -> CastPlan:
        if self._whole is not None:
            return CastPlan(_recast(schema, self._whole, keep_basics=True), None, [])
        fields = [
            (f.name, _recast(f.schema, self._casts[f.name]) if f.name in self._casts else f.schema)
            for f in schema.fields
        ]
        made = with_fields(schema, fields).replace(optional=schema.optional)
        casts = [
            (f.index, caster(f.schema, self._casts[f.name]))
            for f in schema.fields
            if f.name in self._casts
        ]
        plan = CastPlan(made, schema if self._fill else None, casts)
        if schema.default is not None:
            plan.schema = made.replace(default=plan.apply(schema.default))
        return plan


class CastPlan(StructPlan):
    __slots__ = ("casts",)

    def __init__(
        self, schema: Schema, fill: Schema | None, casts: list[tuple[int, Callable[[Any], Any]]]
    ) -> None:
        super().__init__(schema, fill)
        self.casts = casts

    def apply(self, struct: Struct) -> Struct:
        values = filled(struct, self.defaults)
        for index, apply in self.casts:
            values[index] = apply(values[index])
        return Struct.of(self.schema, values)


def _recast(schema: Schema, type: Type, keep_basics: bool = False) -> Schema:
    # Drop the name of a logical type, because the new schema no longer is one.
    basics = basics_of(schema) if keep_basics and schema.name not in LOGICAL_TYPES else {}
    default = cast(schema, schema.default, type)
    return Schema(type, optional=schema.optional, default=default, **basics)


class CastKey(Cast):
    of_key = True


# One value.

INTEGER: Final = re.compile(r"[+-]?\d+")
FLOATING: Final = re.compile(r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*")


def cast(schema: Schema | None, value: Any, target: Type) -> Any:
    if value is None:
        return None
    source = schema.type if schema is not None else _inferred(value)
    if source not in INPUTS:
        raise DataException(
            f"Cast transformation does not support casting from {source}; supported types are "
            f"{java_text(INPUTS)}"
        )
    if schema is not None and target is not Type.STRING and schema.name != DECIMAL:
        value = encode_logical(schema, value)
    if target is Type.STRING:
        return _to_string(value)
    if isinstance(value, bytes | bytearray | memoryview | datetime.date | datetime.time):
        raise DataException(f"Unexpected type in Cast transformation: {type(value).__name__}")
    return _CASTS[target](value)


def caster(schema: Schema, target: Type) -> Callable[[Any], Any]:
    """The conversion for all values of one schema: most values then need no type check."""
    if schema.name in LOGICAL_TYPES or schema.type not in PLAIN or target is Type.STRING:
        return lambda value: cast(schema, value, target)
    apply = _CASTS[target]
    return lambda value: None if value is None else apply(value)


KINDS: Final[list[tuple[Any, Type]]] = [
    (bool, Type.BOOLEAN),
    (int, Type.INT64),
    (float, Type.FLOAT64),
    (str, Type.STRING),
    ((bytes, bytearray, memoryview), Type.BYTES),
    (list, Type.ARRAY),
    (dict, Type.MAP),
    (Struct, Type.STRUCT),
]


def _inferred(value: Any) -> Type:
    for kind, type in KINDS:
        if isinstance(value, kind):
            return type
    raise DataException(
        f"Cast transformation was passed a value of type {value.__class__.__name__} which is not "
        "supported by Connect's data API"
    )


def _to_string(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return date_text(value)
    return java_text(value)


def _out_of_range(value: Any) -> DataException:
    return DataException(f"Value ({java_text(value)}) was out of range for requested data type")


def to_integer(bits: int) -> Callable[[Any], int]:
    half, whole = 1 << bits - 1, 1 << bits
    # Java narrows a double to int or long first, and only then takes the low bytes.
    limit = 1 << (max(bits, 32) - 1)

    def integer(value: Any) -> int:
        if type(value) is int and -half <= value < half:  # the usual case, in one step
            return value
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, str):
            if not INTEGER.fullmatch(value) or not -half <= int(value) < half:
                raise _out_of_range(value)
            return int(value)
        if isinstance(value, float):
            value = 0 if math.isnan(value) else max(-limit, min(limit - 1, value))
        return (int(value) + half) % whole - half

    return integer


def to_float(value: Any) -> float:
    if isinstance(value, str):
        if not FLOATING.fullmatch(value):
            raise _out_of_range(value)
        return float(value.strip().rstrip("fFdD") if value.strip()[-1] in "fFdD" else value)
    return float(value)


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, float | Decimal):
        return not math.isnan(value) and (math.isinf(value) or int(value) != 0)
    return bool(value)


_CASTS: Final[dict[Type, Callable[[Any], Any]]] = {
    **{type: to_integer(bits) for type, bits in INTEGER_BITS.items()},
    Type.FLOAT32: lambda value: float32(to_float(value)),
    Type.FLOAT64: to_float,
    Type.BOOLEAN: _to_boolean,
}
