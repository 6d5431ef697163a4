"""The settings of the JDBC source, with Confluent's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.jdbc import database
from ottla.connect.connectors.jdbc.numbers import MAPPINGS, NONE
from ottla.connect.connectors.jdbc.times import CONNECT_LOGICAL, GRANULARITIES, zone_of
from ottla.connect.errors import ConfigException
from ottla.connect.validators import at_least, non_empty_string, one_of, one_of_any_case

BULK: Final = "bulk"
TIMESTAMP: Final = "timestamp"
INCREMENTING: Final = "incrementing"
BOTH: Final = "timestamp+incrementing"
MODES: Final = (BULK, TIMESTAMP, INCREMENTING, BOTH)
TABLES: Final = "tables"  # what a task reads, set by the connector

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def connection(config: ConfigDef) -> ConfigDef:
    """What source and sink have in common."""
    group = "Database"
    return (
        config.define(
            *("connection.url", ConfigType.STRING), importance=HIGH, group=group,
            doc="jdbc:postgresql://host:port/database or jdbc:sqlite:path.",
            validator=non_empty_string,
        )
        .define("connection.user", ConfigType.STRING, None, HIGH, "User.", group=group)
        .define("connection.password", ConfigType.PASSWORD, None, HIGH, "Password.", group=group)
        .define(
            *("connection.attempts", ConfigType.INT, 3, LOW),
            "How often to try to connect.", group=group, validator=at_least(1),
        )
        .define(
            *("connection.backoff.ms", ConfigType.LONG, 10000, LOW),
            "Time between two tries.", group=group, validator=at_least(0),
        )
        .define(
            *("dialect.name", ConfigType.STRING, "", LOW),
            "The database is known by its URL: this is taken and not used.", group=group,
        )
        .define(
            *("db.timezone", ConfigType.STRING, "UTC", MEDIUM),
            "The zone of timestamps whose column has none.", group=group, validator=_zone,
        )
        .define(
            *("quote.sql.identifiers", ConfigType.STRING, "ALWAYS", MEDIUM),
            "Whether names stand in quotes: ALWAYS, NEVER.", group=group,
            validator=one_of_any_case("ALWAYS", "NEVER"),
        )
        .define(
            *("table.types", ConfigType.LIST, "TABLE", LOW),
            "Kinds of tables: TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.", group=group,
        )
    )  # fmt: skip


def _zone(name: str, value: Any) -> None:
    zone_of(value, name)


def _which(config: ConfigDef) -> ConfigDef:
    group = "Tables"
    for name, old in (("table.include.list", "whitelist"), ("table.exclude.list", "blacklist")):
        doc = "Tables, by name or schema.name, separated by commas."
        config.define(f"table.{old}", ConfigType.LIST, "", MEDIUM, doc, group=group)
        config.define(name, ConfigType.LIST, "", MEDIUM, f"As table.{old}.", group=group)
    return (
        config.define(
            *("catalog.pattern", ConfigType.STRING, None, LOW),
            "The database is in the URL: this is taken and not used.", group=group,
        )
        .define(
            *("schema.pattern", ConfigType.STRING, None, MEDIUM),
            "Only tables of schemas whose names match (LIKE).", group=group,
        )
        .define(
            *("query", ConfigType.STRING, "", MEDIUM),
            "A query instead of tables. In the modes that go on from an offset it is the inner"
            " query of a SELECT with WHERE and ORDER BY.", group=group,
        )
        .define(
            *("query.suffix", ConfigType.STRING, "", LOW),
            "Text behind every query, as LIMIT 1000.", group=group,
        )
        .define(
            *("table.poll.interval.ms", ConfigType.LONG, 60000, LOW),
            "How often to look for tables that came or went.", group=group,
            validator=at_least(1),
        )
    )  # fmt: skip


def _how(config: ConfigDef) -> ConfigDef:
    group = "Mode"
    return (
        config.define(
            *("mode", ConfigType.STRING), importance=HIGH, group=group,
            doc="bulk, timestamp, incrementing or timestamp+incrementing.",
            validator=one_of(*MODES),
        )
        .define(
            *("incrementing.column.name", ConfigType.STRING, "", MEDIUM),
            "A column that only grows; empty: the table's autoincrement column.", group=group,
        )
        .define(
            *("incrementing.initial", ConfigType.LONG, -1, LOW),
            "Rows behind this value are read, if there is no offset.", group=group,
        )
        .define(
            *("timestamp.column.name", ConfigType.LIST, "", MEDIUM),
            "Columns with the time of the last change; the first that is not NULL counts.",
            group=group,
        )
        .define(
            *("timestamp.initial", ConfigType.LONG, None, LOW),
            "Rows behind this time (ms) are read, if there is no offset; -1: from now on.",
            group=group,
        )
        .define(
            *("timestamp.delay.interval.ms", ConfigType.LONG, 0, HIGH),
            "Rows younger than this wait: transactions that end late come in time.",
            group=group, validator=at_least(0),
        )
        .define(
            *("validate.non.null", ConfigType.BOOLEAN, True, LOW),
            "Refuse incrementing and timestamp columns that may be NULL.", group=group,
        )
    )  # fmt: skip


def _what(config: ConfigDef) -> ConfigDef:
    group = "Connector"
    return (
        config.define(
            *("topic.prefix", ConfigType.STRING), importance=HIGH, group=group,
            doc="Before a table's name; with `query`, the topic's name.",
        )
        .define(
            *("poll.interval.ms", ConfigType.INT, 5000, HIGH),
            "How often each table is asked.", group=group, validator=at_least(0),
        )
        .define(
            *("batch.max.rows", ConfigType.INT, 100, LOW),
            "Rows that one poll returns at most.", group=group, validator=at_least(1),
        )
        .define(
            *("numeric.precision.mapping", ConfigType.BOOLEAN, False, LOW),
            "The older name for numeric.mapping=precision_only.", group=group,
        )
        .define(
            *("numeric.mapping", ConfigType.STRING, None, LOW),
            f"What becomes of NUMERIC columns: {', '.join(MAPPINGS)}.", group=group,
            validator=_mapping,
        )
        .define(
            *("timestamp.granularity", ConfigType.STRING, CONNECT_LOGICAL, LOW),
            f"What becomes of timestamps: {', '.join(GRANULARITIES)}.", group=group,
            validator=one_of(*GRANULARITIES),
        )
        .define(
            *("query.retry.attempts", ConfigType.INT, -1, LOW),
            "How often a query that failed is run again; -1: as long as the cause may pass.",
            group=group,
        )
    )  # fmt: skip


def _mapping(name: str, value: Any) -> None:
    if value is not None:
        one_of(*MAPPINGS)(name, value)


CONFIG: Final = _what(_how(_which(connection(ConfigDef()))))


@dataclass(frozen=True, slots=True)
class Settings:
    """A config that was checked, in the form that tasks use."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def mode(self) -> str:
        return str(self.values["mode"])

    @property
    def query(self) -> str:
        return str(self.values["query"])

    @property
    def timestamps(self) -> list[str]:
        return list(self.values["timestamp.column.name"])

    @property
    def incrementing(self) -> str:
        return str(self.values["incrementing.column.name"])

    @property
    def mapping(self) -> database.Mapping:
        numeric = self.values["numeric.mapping"]
        if numeric is None:
            numeric = "precision_only" if self.values["numeric.precision.mapping"] else NONE
        return database.Mapping(
            numeric, self.values["db.timezone"], self.values["timestamp.granularity"]
        )

    @property
    def included(self) -> list[str]:
        return [*self.values["table.whitelist"], *self.values["table.include.list"]]

    @property
    def excluded(self) -> list[str]:
        return [*self.values["table.blacklist"], *self.values["table.exclude.list"]]


def settings_of(props: Mapping[str, str]) -> Settings:
    found = Settings(CONFIG.parse(props))
    for problem in problems(found.values):
        raise ConfigException(f"{problem[0]}: {problem[1]}")
    return found


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong between settings that are right one by one: name and message."""
    return [(name, text) for name, text, wrong in _RULES if wrong(values)]


def _tables(values: Mapping[str, Any], old: str, new: str) -> bool:
    return bool(values.get(f"table.{old}") or values.get(new))


def _listed(values: Mapping[str, Any]) -> bool:
    included = _tables(values, "whitelist", "table.include.list")
    return included or _tables(values, "blacklist", "table.exclude.list")


_RULES: Final[tuple[tuple[str, str, Callable[[Mapping[str, Any]], bool]], ...]] = (
    (
        "table.whitelist",
        "table.whitelist and table.blacklist are exclusive: set one of them",
        lambda v: (
            _tables(v, "whitelist", "table.include.list")
            and _tables(v, "blacklist", "table.exclude.list")
        ),
    ),
    (
        "query",
        "query may not be set together with table.whitelist or table.blacklist",
        lambda v: bool(v.get("query")) and _listed(v),
    ),
    (
        "timestamp.column.name",
        "the modes timestamp and timestamp+incrementing need timestamp.column.name",
        lambda v: v.get("mode") in (TIMESTAMP, BOTH) and not v.get("timestamp.column.name"),
    ),
    (
        "incrementing.column.name",
        "with query, the modes incrementing and timestamp+incrementing need"
        " incrementing.column.name",
        lambda v: (
            v.get("mode") in (INCREMENTING, BOTH)
            and bool(v.get("query"))
            and not v.get("incrementing.column.name")
        ),
    ),
)
