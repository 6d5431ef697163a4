"""The settings of the JDBC sink, with Confluent's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.jdbc.source_config import connection
from ottla.connect.validators import at_least, one_of_any_case

INSERT: Final = "insert"
UPSERT: Final = "upsert"
UPDATE: Final = "update"
NO_KEY: Final = "none"
KAFKA: Final = "kafka"
RECORD_KEY: Final = "record_key"
RECORD_VALUE: Final = "record_value"
KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _writes(config: ConfigDef) -> ConfigDef:
    group = "Writes"
    return (
        config.define(
            *("insert.mode", ConfigType.STRING, INSERT, HIGH),
            "insert, upsert (the last record of a key counts) or update.", group=group,
            validator=one_of_any_case(INSERT, UPSERT, UPDATE),
        )
        .define(
            *("batch.size", ConfigType.INT, 3000, MEDIUM),
            "How many records to write together.", group=group, validator=at_least(1),
        )
        .define(
            *("delete.enabled", ConfigType.BOOLEAN, False, MEDIUM),
            "Whether a tombstone deletes the row of its key.", group=group,
        )
        .define(
            *("max.retries", ConfigType.INT, 10, MEDIUM),
            "The maximum number of retries of a batch.", group=group, validator=at_least(0),
        )
        .define(
            *("retry.backoff.ms", ConfigType.INT, 3000, MEDIUM),
            "The delay between two attempts.", group=group, validator=at_least(0),
        )
    )  # fmt: skip


def _mapping(config: ConfigDef) -> ConfigDef:
    group = "Data Mapping"
    return (
        config.define(
            *("table.name.format", ConfigType.STRING, "${topic}", MEDIUM),
            "The table's name; may contain ${topic}.", group=group,
        )
        .define(
            *("pk.mode", ConfigType.STRING, NO_KEY, HIGH),
            "The source of the primary key: none, kafka (topic, partition and offset),"
            " record_key, record_value.", group=group,
            validator=one_of_any_case(NO_KEY, KAFKA, RECORD_KEY, RECORD_VALUE),
        )
        .define(
            *("pk.fields", ConfigType.LIST, "", MEDIUM),
            "The names of the key columns; empty: all fields of the key or value.", group=group,
        )
        .define(
            *("fields.whitelist", ConfigType.LIST, "", MEDIUM),
            "The fields of the value to write; empty: all.", group=group,
        )
        .define(
            *("fields.include.list", ConfigType.LIST, "", MEDIUM),
            "The same as fields.whitelist.", group=group,
        )
        .define(
            *("auto.create", ConfigType.BOOLEAN, False, MEDIUM),
            "Whether to create missing tables.", group="DDL Support",
        )
        .define(
            *("auto.evolve", ConfigType.BOOLEAN, False, MEDIUM),
            "Whether to add missing columns.", group="DDL Support",
        )
    )  # fmt: skip


def settings_of(props: Mapping[str, str]) -> dict[str, Any]:
    values = SINK_CONFIG.parse(props)
    for name in ("insert.mode", "pk.mode"):
        values[name] = values[name].lower()
    return values


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Errors between settings that are valid by themselves: name and message."""
    return [(name, text) for name, text, wrong in _RULES if wrong(values)]


SINK_CONFIG: Final = _mapping(_writes(connection(ConfigDef()))).check(problems)


def _word(values: Mapping[str, Any], name: str) -> str:
    return str(values.get(name) or "").lower()


_RULES: Final[tuple[tuple[str, str, Callable[[Mapping[str, Any]], bool]], ...]] = (
    (
        "delete.enabled",
        "delete.enabled needs pk.mode=record_key: a deletion is a record that has only a key",
        lambda v: bool(v.get("delete.enabled")) and _word(v, "pk.mode") != RECORD_KEY,
    ),
    (
        "pk.mode",
        "insert.mode upsert and update need a primary key: pk.mode may not be none",
        lambda v: _word(v, "insert.mode") in (UPSERT, UPDATE) and _word(v, "pk.mode") == NO_KEY,
    ),
    (
        "pk.fields",
        "with pk.mode=kafka, pk.fields are the three names of topic, partition and offset,"
        " or empty",
        lambda v: _word(v, "pk.mode") == KAFKA and len(v.get("pk.fields") or ()) not in (0, 3),
    ),
)
