"""The settings of the JDBC source, with Confluent's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.jdbc import database
from ottla.connect.connectors.jdbc.numeric_mapping import NONE, NUMERIC_MAPPINGS
from ottla.connect.connectors.jdbc.times import CONNECT_LOGICAL, GRANULARITIES, zone_of
from ottla.connect.validators import at_least, non_empty_string, one_of, one_of_any_case

BULK: Final = "bulk"
TIMESTAMP: Final = "timestamp"
INCREMENTING: Final = "incrementing"
BOTH: Final = "timestamp+incrementing"
MODES: Final = (BULK, TIMESTAMP, INCREMENTING, BOTH)
TABLES: Final = "tables"  # the tables of a task, set by the connector

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def connection(config: ConfigDef) -> ConfigDef:
    """The settings that source and sink share."""
    group = "Database"
    return (
        config.define(
            *("connection.url", ConfigType.STRING), importance=HIGH, group=group,
            doc="jdbc:postgresql://host:port/database or jdbc:sqlite:path.",
            validator=non_empty_string,
        )
        .define("connection.user", ConfigType.STRING, None, HIGH, "The user.", group=group)
        .define("connection.password", ConfigType.PASSWORD, None, HIGH, "Password.", group=group)
        .define(
            *("connection.attempts", ConfigType.INT, 3, LOW),
            "The maximum number of attempts to connect.", group=group, validator=at_least(1),
        )
        .define(
            *("connection.backoff.ms", ConfigType.LONG, 10000, LOW),
            "The delay between two attempts.", group=group, validator=at_least(0),
        )
        .define(
            *("dialect.name", ConfigType.STRING, "", LOW),
            "Accepted and ignored: the URL determines the database.", group=group,
        )
        .define(
            *("db.timezone", ConfigType.STRING, "UTC", MEDIUM),
            "The time zone of columns without one.", group=group, validator=_zone,
        )
        .define(
            *("quote.sql.identifiers", ConfigType.STRING, "ALWAYS", MEDIUM),
            "Whether to quote identifiers: ALWAYS, NEVER.", group=group,
            validator=one_of_any_case("ALWAYS", "NEVER"),
        )
        .define(
            *("table.types", ConfigType.LIST, "TABLE", LOW),
            "Types of tables: TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.", group=group,
        )
    )  # fmt: skip


def _zone(name: str, value: Any) -> None:
    zone_of(value, name)


def _which(config: ConfigDef) -> ConfigDef:
    group = "Tables"
    for name, old in (("table.include.list", "whitelist"), ("table.exclude.list", "blacklist")):
        doc = "Tables, by name or schema.name, separated by commas."
        config.define(f"table.{old}", ConfigType.LIST, "", MEDIUM, doc, group=group)
        config.define(name, ConfigType.LIST, "", MEDIUM, f"The same as table.{old}.", group=group)
    return (
        config.define(
            *("catalog.pattern", ConfigType.STRING, None, LOW),
            "Accepted and ignored: the URL contains the database.", group=group,
        )
        .define(
            *("schema.pattern", ConfigType.STRING, None, MEDIUM),
            "A LIKE pattern for the schemas of tables.", group=group,
        )
        .define(
            *("query", ConfigType.STRING, "", MEDIUM),
            "A query to run instead of reading tables. In all modes but bulk it becomes the"
            " subquery of a SELECT with WHERE and ORDER BY.", group=group,
        )
        .define(
            *("query.suffix", ConfigType.STRING, "", LOW),
            "Text to append to every query, such as LIMIT 1000.", group=group,
        )
        .define(
            *("table.poll.interval.ms", ConfigType.LONG, 60000, LOW),
            "How often to look for new and dropped tables.", group=group,
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
            "A strictly increasing column; empty: the table's autoincrement column.", group=group,
        )
        .define(
            *("incrementing.initial", ConfigType.LONG, -1, LOW),
            "Without an offset, read the rows after this value.", group=group,
        )
        .define(
            *("timestamp.column.name", ConfigType.LIST, "", MEDIUM),
            "Columns with the time of the last change; the first non-NULL one counts.",
            group=group,
        )
        .define(
            *("timestamp.initial", ConfigType.LONG, None, LOW),
            "Without an offset, read the rows after this time (ms); -1: the current time.",
            group=group,
        )
        .define(
            *("timestamp.delay.interval.ms", ConfigType.LONG, 0, HIGH),
            "How old rows must be to be read: none is missed if a transaction commits late.",
            group=group, validator=at_least(0),
        )
        .define(
            *("validate.non.null", ConfigType.BOOLEAN, True, LOW),
            "Whether to reject incrementing and timestamp columns that may be NULL.", group=group,
        )
    )  # fmt: skip


def _what(config: ConfigDef) -> ConfigDef:
    group = "Connector"
    return (
        config.define(
            *("topic.prefix", ConfigType.STRING), importance=HIGH, group=group,
            doc="The prefix of topic names; with `query`, the topic's name.",
        )
        .define(
            *("poll.interval.ms", ConfigType.INT, 5000, HIGH),
            "How often to poll each table.", group=group, validator=at_least(0),
        )
        .define(
            *("batch.max.rows", ConfigType.INT, 100, LOW),
            "The maximum number of rows that one poll returns.", group=group, validator=at_least(1),
        )
        .define(
            *("numeric.precision.mapping", ConfigType.BOOLEAN, False, LOW),
            "The old form of numeric.mapping=precision_only.", group=group,
        )
        .define(
            *("numeric.mapping", ConfigType.STRING, None, LOW),
            f"The mapping of NUMERIC columns: {', '.join(NUMERIC_MAPPINGS)}.", group=group,
            validator=_mapping,
        )
        .define(
            *("timestamp.granularity", ConfigType.STRING, CONNECT_LOGICAL, LOW),
            f"The form of timestamps: {', '.join(GRANULARITIES)}.", group=group,
            validator=one_of(*GRANULARITIES),
        )
        .define(
            *("query.retry.attempts", ConfigType.INT, -1, LOW),
            "The maximum number of retries after a transient error; -1: no limit.",
            group=group,
        )
    )  # fmt: skip


def _mapping(name: str, value: Any) -> None:
    if value is not None:
        one_of(*NUMERIC_MAPPINGS)(name, value)


@dataclass(frozen=True, slots=True)
class JdbcSourceConfig:
    """A validated config, as tasks use it."""

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
    def mapping(self) -> database.ColumnConversion:
        numeric = self.values["numeric.mapping"]
        if numeric is None:
            numeric = "precision_only" if self.values["numeric.precision.mapping"] else NONE
        return database.ColumnConversion(
            numeric, self.values["db.timezone"], self.values["timestamp.granularity"]
        )

    @property
    def included(self) -> list[str]:
        return [*self.values["table.whitelist"], *self.values["table.include.list"]]

    @property
    def excluded(self) -> list[str]:
        return [*self.values["table.blacklist"], *self.values["table.exclude.list"]]


def settings_of(props: Mapping[str, str]) -> JdbcSourceConfig:
    return JdbcSourceConfig(SOURCE_CONFIG.parse(props))


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Errors between settings that are valid by themselves: name and message."""
    return [(name, text) for name, text, wrong in _RULES if wrong(values)]


SOURCE_CONFIG: Final = _what(_how(_which(connection(ConfigDef())))).check(problems)


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
