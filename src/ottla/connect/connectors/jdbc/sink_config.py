"""The settings of the JDBC sink, with Confluent's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.jdbc.source_config import connection
from ottla.connect.errors import ConfigException
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
            "Records that are written together.", group=group, validator=at_least(1),
        )
        .define(
            *("delete.enabled", ConfigType.BOOLEAN, False, MEDIUM),
            "A record without value deletes the row of its key.", group=group,
        )
        .define(
            *("max.retries", ConfigType.INT, 10, MEDIUM),
            "How often a batch is tried again.", group=group, validator=at_least(0),
        )
        .define(
            *("retry.backoff.ms", ConfigType.INT, 3000, MEDIUM),
            "Time between two tries.", group=group, validator=at_least(0),
        )
    )  # fmt: skip


def _mapping(config: ConfigDef) -> ConfigDef:
    group = "Data Mapping"
    return (
        config.define(
            *("table.name.format", ConfigType.STRING, "${topic}", MEDIUM),
            "The table's name; ${topic} stands for the topic's.", group=group,
        )
        .define(
            *("pk.mode", ConfigType.STRING, NO_KEY, HIGH),
            "Where the primary key comes from: none, kafka (topic, partition and offset),"
            " record_key, record_value.", group=group,
            validator=one_of_any_case(NO_KEY, KAFKA, RECORD_KEY, RECORD_VALUE),
        )
        .define(
            *("pk.fields", ConfigType.LIST, "", MEDIUM),
            "Names of the key's columns; empty: all fields of the key or value.", group=group,
        )
        .define(
            *("fields.whitelist", ConfigType.LIST, "", MEDIUM),
            "The fields of the value that are written; empty: all.", group=group,
        )
        .define(
            *("fields.include.list", ConfigType.LIST, "", MEDIUM),
            "As fields.whitelist.", group=group,
        )
        .define(
            *("auto.create", ConfigType.BOOLEAN, False, MEDIUM),
            "Make a table that is not there.", group="DDL Support",
        )
        .define(
            *("auto.evolve", ConfigType.BOOLEAN, False, MEDIUM),
            "Add columns that are not there.", group="DDL Support",
        )
    )  # fmt: skip


CONFIG: Final = _mapping(_writes(connection(ConfigDef())))


def settings_of(props: Mapping[str, str]) -> dict[str, Any]:
    values = CONFIG.parse(props)
    for name, text in problems(values):
        raise ConfigException(f"{name}: {text}")
    for name in ("insert.mode", "pk.mode"):
        values[name] = values[name].lower()
    return values


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong between settings that are right one by one: name and message."""
    return [(name, text) for name, text, wrong in _RULES if wrong(values)]


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
