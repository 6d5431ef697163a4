"""Source definitions: CREATE STREAM and CREATE TABLE become a source and, if needed, a topic.

No I/O: the caller passes a function that gives the partition count of a topic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.rows.errors import SqlError
from ottla.rows.schema import (
    FORMATS,
    PSEUDO_COLUMNS,
    WINDOW_BOUNDS,
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.rows.schema_properties import INFERRED, Owner, Properties, schema_properties
from ottla.rows.types import BYTES, STRING, SqlBaseType, SqlType, array, struct
from ottla.sql.catalog import DataSource, close_names, column_text, did_you_mean
from ottla.sql.comparable import has_map
from ottla.sql.syntax.statements import CreateSource, Element, SourceKind

PartitionCount = Callable[[str], int | None]
"""The partition count of a topic; None if it does not exist, 0 if the count does not matter."""

DEFAULT_KEY_FORMAT: Final = "ksql.persistence.default.format.key"
DEFAULT_VALUE_FORMAT: Final = "ksql.persistence.default.format.value"
TOPIC_PREFIX: Final = "ksql.output.topic.name.prefix"
WRAP_SINGLE_VALUES: Final = "ksql.persistence.wrap.single.values"


CREATE_PROPERTIES: Final = frozenset(
    {
        "KAFKA_TOPIC",
        "FORMAT",
        "KEY_FORMAT",
        "VALUE_FORMAT",
        "KEY_DELIMITER",
        "VALUE_DELIMITER",
        "PARTITIONS",
        "REPLICAS",
        "RETENTION_MS",
        "CLEANUP_POLICY",
        "TIMESTAMP",
        "TIMESTAMP_FORMAT",
        "WRAP_SINGLE_VALUE",
        "WINDOW_TYPE",
        "WINDOW_SIZE",
        "KEY_SCHEMA_ID",
        "VALUE_SCHEMA_ID",
        "KEY_SCHEMA_FULL_NAME",
        "VALUE_SCHEMA_FULL_NAME",
        "VALUE_AVRO_SCHEMA_FULL_NAME",
        "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
        "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
    }
)
CREATE_AS_PROPERTIES: Final = CREATE_PROPERTIES - {"WINDOW_TYPE", "WINDOW_SIZE"}

HEADERS_TYPE: Final = array(struct(("KEY", STRING), ("VALUE", BYTES)))

STRING_KEYS: Final[Mapping[str, str]] = {
    "JSON": "JSON only supports MAP types with STRING keys",
    "JSON_SR": "JSON only supports MAP types with STRING keys",
    "AVRO": "Avro only supports MAPs with STRING keys",
    "PROTOBUF": "PROTOBUF format only supports MAP types with STRING keys.",
    "PROTOBUF_NOSR": "PROTOBUF format only supports MAP types with STRING keys.",
}
UNWRAPPED: Final = frozenset({"KAFKA", "DELIMITED", "JSON", "AVRO", "JSON_SR"})
"""Formats that support an unwrapped single column, and formats that support a wrapped one."""
WRAPPED: Final = frozenset({"JSON", "AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"})
_KAFKA_TYPES: Final = frozenset(
    {
        SqlBaseType.INTEGER,
        SqlBaseType.BIGINT,
        SqlBaseType.DOUBLE,
        SqlBaseType.STRING,
        SqlBaseType.BYTES,
    }
)
_NESTED: Final = frozenset({SqlBaseType.ARRAY, SqlBaseType.MAP, SqlBaseType.STRUCT})
_DURATION: Final = re.compile(r"\s*(\d+)\s+([A-Za-z]+?)S?\s*", re.IGNORECASE)
_UNITS_MS: Final[Mapping[str, int]] = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}


@dataclass(frozen=True, slots=True)
class SourceTopicSpec:
    """A topic to create before its source."""

    name: str
    partitions: int
    replicas: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    source: DataSource
    topic: SourceTopicSpec | None


def define(
    statement: CreateSource, partition_count: PartitionCount, defaults: Mapping[str, str]
) -> SourceDefinition:
    """The definition that a CREATE STREAM or CREATE TABLE with columns makes."""
    properties = statement.properties
    check_properties(properties, CREATE_PROPERTIES)
    columns = tuple(_column(element) for element in statement.elements)
    name = text(properties, "KAFKA_TOPIC")
    _check_columns(statement, columns)
    owner = Owner(name or "", statement.name)
    layout = Layout(
        schema=LogicalSchema(columns),
        key_format=key_format(properties, columns, defaults, owner),
        value_format=value_format(properties, columns, defaults, owner),
        is_table=statement.kind is SourceKind.TABLE,
        windowed=_windowed(properties, columns),
        timestamp=timestamp_column(properties, columns),
        timestamp_format=str(properties.get("TIMESTAMP_FORMAT", "")),
    )
    if name is None:
        raise SqlError(
            'Missing required property "KAFKA_TOPIC" which has no default value.',
            remedy="Add KAFKA_TOPIC='...' to the WITH clause.",
        )
    there = partition_count(name)
    spec = None if there is not None else _topic_spec(statement, name)
    if there is not None:
        _check_partitions(properties, name, there)
    return SourceDefinition(
        DataSource(
            statement.name,
            statement.kind,
            layout,
            name,
            sql_text=statement.text,
            read_only=statement.read_only,
            partitions=there if there is not None else spec.partitions if spec else 0,
        ),
        spec,
    )


# -- columns


def _column(element: Element) -> Column:
    return Column(element.name, element.type, element.role, element.header)


def _check_columns(statement: CreateSource, columns: tuple[Column, ...]) -> None:
    if not columns:
        raise SqlError(
            "The statement does not define any columns.",
            remedy=f"CREATE {statement.kind} {statement.name} (ID STRING, ...) WITH (...);"
            " columns are required, unless the format infers them from a schema registry:"
            f" {', '.join(sorted(INFERRED))}.",
        )
    _check_names(columns)
    _check_key_words(statement)
    for column in columns:
        if column.role is Role.KEY:
            refuse_maps(column)
        elif column.role is Role.HEADERS and column.type != HEADERS_TYPE:
            raise SqlError(
                f"Invalid type for HEADERS column: expected {HEADERS_TYPE}, got {column.type}",
                remedy=f"Declare it as `{column.name}` {HEADERS_TYPE} HEADERS.",
            )
        elif column.role is Role.HEADER and column.type != BYTES:
            raise SqlError(
                f"Invalid type for HEADER('{column.header}') column: expected BYTES, got"
                f" {column.type}",
                remedy=f"Declare it as `{column.name}` BYTES HEADER('{column.header}').",
            )
    whole = [column for column in columns if column.role is Role.HEADERS]
    if len(whole) > 1 or (whole and any(column.role is Role.HEADER for column in columns)):
        raise SqlError(
            "Schema already contains a HEADERS column.",
            remedy="Declare one HEADERS column, or HEADER('...') columns.",
        )


def _check_names(columns: tuple[Column, ...]) -> None:
    for column in columns:
        if column.name in PSEUDO_COLUMNS or column.name in WINDOW_BOUNDS:
            raise SqlError(
                f"'{column.name}' is a reserved column name. You cannot use it as a name for a"
                " column.",
                remedy="Every stream and table has this pseudo column; choose another name.",
            )
    for name, times in Counter(column.name for column in columns).items():
        if times > 1:
            raise SqlError(
                f"Duplicate column names: `{name}`",
                remedy="Column names must be unique, those of keys included.",
            )


def _check_key_words(statement: CreateSource) -> None:
    """Tables have PRIMARY KEY columns, streams KEY columns."""
    is_table = statement.kind is SourceKind.TABLE
    for element in statement.elements:
        if element.role is Role.KEY and element.primary is not is_table:
            wrong, right = ("KEY", "PRIMARY KEY") if is_table else ("PRIMARY KEY", "KEY")
            raise SqlError(
                f"Column `{element.name}` is a '{wrong}' column: please use '{right}' for"
                f" {statement.kind.lower()}s.\n"
                "Tables have PRIMARY KEYs, which are unique and NON NULL.\n"
                "Streams have KEYs, which have no uniqueness or NON NULL constraints.",
                remedy=f"Write {element.name} {element.type} {right}.",
            )
    if is_table and not any(element.role is Role.KEY for element in statement.elements):
        first = statement.elements[0]
        raise SqlError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            remedy=f"For example: CREATE TABLE {statement.name}"
            f" ({first.name} {first.type} PRIMARY KEY, ...) WITH (...);",
        )


def refuse_maps(column: Column) -> None:
    """A key must not contain maps, because the same map can have different bytes."""
    if has_map(column.type):
        raise SqlError(
            "Map keys, including types that contain maps, are not supported as they may lead to"
            " unexpected behavior due to inconsistent serialization. Key column name:"
            f" `{column.name}`. Column type: {column.type}.",
            remedy="Use a STRUCT, or make the map a value column.",
        )


def _has_other_keys(type_: SqlType) -> bool:
    if type_.kind is SqlBaseType.MAP and type_.key != STRING:
        return True
    inner = [type_.element] if type_.element else []
    return any(
        _has_other_keys(inner_type)
        for inner_type in [*inner, *(field.type for field in type_.fields)]
    )


# -- properties


def check_properties(properties: Properties, allowed: frozenset[str]) -> None:
    unknown = sorted(set(properties) - allowed)
    if unknown:
        raise SqlError(
            f"Invalid config variable(s) in the WITH clause: {','.join(unknown)}",
            remedy=did_you_mean(unknown[0], allowed, "")
            if close_names(unknown[0], allowed)
            else "Known are: " + ", ".join(sorted(allowed)) + ".",
        )
    if "FORMAT" in properties and {"KEY_FORMAT", "VALUE_FORMAT"} & set(properties):
        other = "KEY_FORMAT" if "KEY_FORMAT" in properties else "VALUE_FORMAT"
        raise SqlError(
            f"Cannot supply both '{other}' and 'FORMAT' properties, as 'FORMAT' sets both key and"
            " value formats.",
            remedy="Use FORMAT alone, or KEY_FORMAT and VALUE_FORMAT.",
        )


def text(properties: Properties, name: str) -> str | None:
    value = properties.get(name)
    return None if value is None else str(value)


def whole_number(properties: Properties, name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise SqlError(
            f"Invalid value {value} for property {name}: Not a positive number.",
            remedy=f"{name}=1, for example.",
        )
    return number


def key_format(
    properties: Properties, columns: Iterable[Column], defaults: Mapping[str, str], owner: Owner
) -> FormatInfo:
    named = text(properties, "KEY_FORMAT") or text(properties, "FORMAT")
    keys = [column for column in columns if column.role is Role.KEY]
    name = known_format(named or defaults.get(DEFAULT_KEY_FORMAT) or "KAFKA")
    if not keys and named is None and name == "NONE":
        return FormatInfo("NONE")
    check_format(name, keys, "Key")
    return FormatInfo(
        name,
        wrapped=len(keys) != 1 or name not in UNWRAPPED,
        properties={
            **_delimiter(properties, "KEY", name),
            **schema_properties(properties, "KEY", name, owner),
        },
    )


def value_format(
    properties: Properties, columns: Iterable[Column], defaults: Mapping[str, str], owner: Owner
) -> FormatInfo:
    named = (
        text(properties, "VALUE_FORMAT")
        or text(properties, "FORMAT")
        or defaults.get(DEFAULT_VALUE_FORMAT)
    )
    if not named:
        raise SqlError(
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide"
            f" one or set a default via the '{DEFAULT_VALUE_FORMAT}' config.",
            remedy="Add VALUE_FORMAT='JSON', for example.",
        )
    name = known_format(named)
    values = [column for column in columns if column.role is Role.VALUE]
    check_format(name, values, "Value")
    return FormatInfo(
        name,
        wrapped=_wrapped(properties, name, values, defaults),
        properties={
            **_delimiter(properties, "VALUE", name),
            **schema_properties(properties, "VALUE", name, owner),
        },
    )


def known_format(name: str) -> str:
    upper = name.upper()
    if upper not in FORMATS:
        raise SqlError(f"Unknown format: {upper}", remedy="Use one of " + ", ".join(FORMATS) + ".")
    return upper


def check_format(name: str, columns: list[Column], part: str) -> None:
    """SqlError if the format does not support these columns. `part` is Key or Value."""
    reason = ""
    if name in STRING_KEYS and any(_has_other_keys(column.type) for column in columns):
        raise SqlError(STRING_KEYS[name], remedy="CAST the keys to STRING.")
    got = f"[{', '.join(column_text(column) for column in columns)}]"
    if name == "NONE" and columns:
        reason = f"The 'NONE' format can only be used when no columns are defined. Got: {got}"
    elif name == "KAFKA" and len(columns) > 1:
        reason = f"The 'KAFKA' format only supports a single field. Got: {got}"
    else:
        for column in columns:
            wrong = (name == "KAFKA" and column.type.kind not in _KAFKA_TYPES) or (
                name == "DELIMITED" and column.type.kind in _NESTED
            )
            if wrong:
                reason = (
                    f"The '{name}' format does not support type '{column.type.kind}',"
                    f" column: `{column.name}`"
                )
                break
    if reason:
        raise SqlError(
            f"{part} format does not support schema.\nformat: {name}\nschema: {got}\n"
            f"reason: {reason}",
            remedy=f"{part.upper()}_FORMAT='JSON' can hold them.",
        )


def _wrapped(
    properties: Properties, name: str, values: list[Column], defaults: Mapping[str, str]
) -> bool:
    spec = properties.get("WRAP_SINGLE_VALUE")
    if spec is None:
        wraps = str(defaults.get(WRAP_SINGLE_VALUES, "true")).lower() == "true"
        return len(values) != 1 or wraps or name not in UNWRAPPED
    wrapped = str(spec).lower() == "true"
    if len(values) != 1:
        raise SqlError(
            "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
            remedy="Leave it out: several columns are always wrapped.",
        )
    if name not in (UNWRAPPED if not wrapped else WRAPPED):
        raise SqlError(
            f"Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to"
            f" '{str(wrapped).lower()}'.",
            remedy="Leave it out, or use VALUE_FORMAT='JSON'.",
        )
    return wrapped


def _delimiter(properties: Properties, part: str, name: str) -> dict[str, str]:
    """The property without its prefix KEY_ or VALUE_: {"DELIMITER": ";"}."""
    spec = text(properties, f"{part}_DELIMITER")
    if spec is None:
        return {}
    if name != "DELIMITED":
        raise SqlError(
            f"{part}_DELIMITER is supported only with the DELIMITED format",
            remedy=f"Leave it out, or use {part}_FORMAT='DELIMITED'.",
        )
    named = {"SPACE": " ", "TAB": "\t"}.get(spec.upper(), spec)
    if len(named) != 1:
        raise SqlError(
            f"Invalid delimiter value: '{spec}'. Delimiter must be a single character or TAB,SPACE",
            remedy=f"{part}_DELIMITER=';', for example.",
        )
    return {"DELIMITER": named}


def timestamp_column(properties: Properties, columns: Iterable[Column]) -> str:
    name = text(properties, "TIMESTAMP")
    pattern = text(properties, "TIMESTAMP_FORMAT")
    if name is None:
        if pattern is not None:
            raise SqlError(
                "'TIMESTAMP_FORMAT' can only be used together with 'TIMESTAMP'.",
                remedy="Add TIMESTAMP='...' with the name of the column.",
            )
        return ""
    there = {column.name: column for column in columns}
    # The property is a string, but follows the rules of identifiers.
    exact = name.strip("`") if name.startswith("`") else name.upper()
    column = there.get(exact) or there.get(name)
    if column is None:
        raise SqlError(
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{exact}'",
            remedy="The columns are: " + ", ".join(there) + ".",
        )
    if column.type.kind is SqlBaseType.STRING:
        if pattern is None:
            raise SqlError(
                f"A String timestamp field has been specified without also specifying the"
                f" timestamp_format: `{column.name}`",
                remedy="Add TIMESTAMP_FORMAT='yyyy-MM-dd''T''HH:mm:ssX', for example.",
            )
    elif pattern is not None:
        raise SqlError(
            "'TIMESTAMP_FORMAT' set in the WITH clause can only be used when the timestamp column"
            " is of type STRING.",
            remedy="Leave TIMESTAMP_FORMAT away.",
        )
    elif column.type.kind not in (SqlBaseType.BIGINT, SqlBaseType.TIMESTAMP):
        raise SqlError(
            f"Timestamp column, `{column.name}`, should be LONG(INT64), TIMESTAMP, or a String with"
            " a timestamp_format specified.",
            remedy=f"It is {column.type}: declare it as BIGINT (milliseconds) or TIMESTAMP.",
        )
    return column.name


def _windowed(properties: Properties, columns: Iterable[Column]) -> WindowInfo | None:
    kind_text, size = text(properties, "WINDOW_TYPE"), text(properties, "WINDOW_SIZE")
    if kind_text is None:
        if size is not None:
            raise SqlError(
                "'WINDOW_SIZE' can only be used together with 'WINDOW_TYPE'.",
                remedy="Add WINDOW_TYPE='TUMBLING' or 'HOPPING'.",
            )
        return None
    if kind_text.upper() not in WindowKind.__members__:
        raise SqlError(
            f"Invalid value {kind_text} for property WINDOW_TYPE: String must be one of: SESSION,"
            " HOPPING, TUMBLING, null",
            remedy="WINDOW_TYPE='TUMBLING', for example.",
        )
    kind = WindowKind(kind_text.upper())
    if not any(column.role is Role.KEY for column in columns):
        raise SqlError(
            "Windowed sources require a key column.",
            remedy="Declare the key of the records as KEY or PRIMARY KEY.",
        )
    if kind is WindowKind.SESSION:
        if size is not None:
            raise SqlError(
                "'WINDOW_SIZE' should not be set for SESSION windows.",
                remedy="Leave out WINDOW_SIZE: the key of a session has its end.",
            )
        return WindowInfo(kind)
    if size is None:
        raise SqlError(
            f"{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example:"
            " 'WINDOW_SIZE'='10 SECONDS'",
            remedy="Add WINDOW_SIZE='10 SECONDS'.",
        )
    return WindowInfo(kind, duration_ms(size))


def duration_ms(written: str) -> int:
    """`10 SECONDS`, `1 HOUR`, `500 MILLISECONDS`."""
    found = _DURATION.fullmatch(written)
    unit = _UNITS_MS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise SqlError(
            f"Invalid duration: '{written}'. Expected a number and a unit.",
            remedy="Units are " + ", ".join(f"{unit}S" for unit in _UNITS_MS) + ".",
        )
    return int(found[1]) * unit


# -- the topic


def _topic_spec(statement: CreateSource, name: str) -> SourceTopicSpec:
    properties = statement.properties
    partitions = whole_number(properties, "PARTITIONS")
    if partitions is None or statement.read_only:
        raise SqlError(
            f"Topic '{name}' does not exist. If you want to create a new topic for the stream/table"
            " please re-run the statement providing the required 'PARTITIONS' configuration in the"
            " WITH clause (and optionally 'REPLICAS').",
            remedy=f"For example: WITH (KAFKA_TOPIC='{name}', PARTITIONS=1, ...)",
        )
    return SourceTopicSpec(
        name,
        partitions,
        whole_number(properties, "REPLICAS"),
        topic_configs(properties, statement.kind, windowed="WINDOW_TYPE" in properties),
    )


def topic_configs(properties: Properties, kind: SourceKind, *, windowed: bool) -> dict[str, str]:
    """Topics of tables are compacted; those of windowed tables are deleted from as well."""
    retention = whole_number(properties, "RETENTION_MS")
    if kind is SourceKind.TABLE and not windowed:
        if retention is not None:
            raise SqlError(
                "Invalid config variable in the WITH clause: RETENTION_MS. Non-windowed tables do"
                " not support retention.",
                remedy="Leave RETENTION_MS away.",
            )
        return {"cleanup.policy": "compact"}
    policy = "compact,delete" if kind is SourceKind.TABLE else "delete"
    return {
        "cleanup.policy": policy,
        **({"retention.ms": str(retention)} if retention is not None else {}),
    }


def _check_partitions(properties: Properties, name: str, there: int) -> None:
    wanted = whole_number(properties, "PARTITIONS")
    if wanted is not None and there and wanted != there:
        raise SqlError(
            f"A Kafka topic with the name '{name}' already exists, with different partition/replica"
            f" configuration than required. KSQL expects {wanted} partitions (topic has {there}).",
            remedy="Leave out PARTITIONS to use the topic as it is.",
        )
