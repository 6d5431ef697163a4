"""ProtobufConverter's settings, and Confluent's markers for unions, enums and tags."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.connect.converters.avro_settings import scrubbed
from ottla.connect.converters.sum_types import (
    SUM_TYPE_ENUM,
    SUM_TYPE_UNION,
    enum_parameter_of,
    is_union_of,
)
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
WRAPPER: Final = f"{NAMESPACE}.Wrapper"
PRECISION: Final = "connect.decimal.precision"
META: Final = "confluent/meta.proto"
META_OPTION: Final = "(confluent.field_meta)"
WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"

# Logical type -> message, and the file that defines it.
LOGICAL: Final = {
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
LOGICAL_OF: Final = {message: name for name, (message, _) in LOGICAL.items()}
SCALARS: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
WRAPPERS: Final = {
    "int32": "Int32Value",
    "int64": "Int64Value",
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
    "float": "FloatValue",
    "double": "DoubleValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}
WRAPPED: Final = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
_LEGAL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class ProtobufSettings(NamedTuple):
    enhanced: bool = False
    scrub: bool = False
    integer_enums: bool = False
    optional_nullables: bool = False
    wrapped_nullables: bool = False
    wrapped_primitives: bool = True
    indexed_unions: bool = True
    flatten_unions: bool = False
    generalized: bool = False
    ignore_defaults: bool = False

    @property
    def enum_parameter(self) -> str:
        return enum_parameter_of(ENUM, generalized=self.generalized)

    def scrubbed(self, name: str) -> str:
        if not self.scrub or not name or _LEGAL.match(name):
            return name
        return f"x{scrubbed(name)}" if name[0] == "_" else scrubbed(name)


def is_union(schema: Schema) -> bool:
    return is_union_of(schema, UNION)


def enum_parameter(schema: Schema) -> str | None:
    """The parameter that names an enum; parameters below it map its symbols to numbers."""
    parameters = schema.parameters or {}
    return next((name for name in (SUM_TYPE_ENUM, ENUM) if name in parameters), None)


def union_name(schema: Schema) -> str:
    given = (schema.parameters or {}).get(SUM_TYPE_UNION)
    return given or (schema.name or "").removeprefix(f"{UNION}.").rpartition(".")[2]
