"""The settings of every connector: names, defaults, groups and order are Kafka's."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance, Width
from ottla.connect.errors import ConfigException
from ottla.connect.validators import (
    at_least,
    no_duplicates,
    non_empty_string,
    non_null,
    one_of,
    one_of_any_case,
    printable_string,
    regex,
)
from ottla.rows.java.regular_expressions import compile_regular_expression

COMMON: Final = "Common"
ERROR_HANDLING: Final = "Error Handling"
TOPIC_CREATION: Final = "Topic Creation"
EXACTLY_ONCE: Final = "Exactly Once Support"
STRING, INT, LONG = ConfigType.STRING, ConfigType.INT, ConfigType.LONG
BOOLEAN, LIST, CLASS = ConfigType.BOOLEAN, ConfigType.LIST, ConfigType.CLASS
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def unique_aliases(name: str, value: Any) -> None:
    non_null(name, value)
    if len(set(value)) < len(value):
        raise ConfigException.of(name, value, "Duplicate alias provided.")


def connector_config(
    *,
    converters: dict[str, str | None] | None = None,
    validators: dict[str, Any] | None = None,
    recommenders: dict[str, Any] | None = None,
    version: str | None = None,
) -> ConfigDef:
    """What sources and sinks share; the converters default to the worker's."""
    defaults, checks, offers = converters or {}, validators or {}, recommenders or {}
    config = (
        ConfigDef()
        .define("name", STRING, importance=HIGH, doc="The name of the connector.",
                group=COMMON, order=1, width=Width.MEDIUM, display_name="Connector name",
                validator=printable_string)
        .define("connector.class", STRING, importance=HIGH,
                doc="The connector's class, or its alias.",
                group=COMMON, order=2, width=Width.LONG, display_name="Connector class")
        .define("connector.plugin.version", STRING, version, MEDIUM, "The connector's version.",
                group=COMMON, order=3, width=Width.MEDIUM, display_name="Connector version")
        .define("tasks.max", INT, 1, HIGH, "The maximum number of tasks.",
                group=COMMON, order=4, width=Width.SHORT, display_name="Tasks max",
                validator=at_least(1))
        .define("tasks.max.enforce", BOOLEAN, True, LOW,
                "Whether to fail a connector that generates more tasks than tasks.max.",
                group=COMMON, order=5, width=Width.SHORT, display_name="Enforce tasks max")
    )  # fmt: skip
    order = 6
    for half in ("key", "value", "header"):
        name = f"{half}.converter"
        config.define(name, CLASS, defaults.get(name), LOW,
                      f"The class that converts {half}s to and from bytes.",
                      group=COMMON, order=order, width=Width.SHORT,
                      display_name=f"{half.capitalize()} converter class",
                      validator=checks.get(name), recommender=offers.get(name))  # fmt: skip
        config.define(f"{name}.plugin.version", STRING, None, LOW,
                      f"The version of the {half} converter.",
                      group=COMMON, order=order + 1, width=Width.SHORT,
                      display_name=f"{half.capitalize()} converter version")  # fmt: skip
        order += 2
    config.define("transforms", LIST, "", LOW, "Aliases of the transforms, in the order of use.",
                  group="Transforms", order=12, width=Width.LONG, display_name="Transforms",
                  validator=unique_aliases)  # fmt: skip
    config.define("predicates", LIST, "", LOW, "Aliases of the predicates that transforms use.",
                  group="Predicates", order=13, width=Width.LONG, display_name="Predicates",
                  validator=unique_aliases)  # fmt: skip
    config.define("config.action.reload", STRING, "restart", LOW,
                  "What to do when a value from a config provider has changed.",
                  group=COMMON, order=14, width=Width.MEDIUM, display_name="Reload Action",
                  validator=one_of("none", "restart"))  # fmt: skip
    for key in ERRORS.keys.values():
        config.add(key)
    return config


ERRORS: Final = (
    ConfigDef()
    .define("errors.retry.timeout", LONG, 0, MEDIUM,
            "How long a failed operation is retried, in ms: 0 for no retries, -1 for no limit.",
            group=ERROR_HANDLING, order=1, width=Width.MEDIUM,
            display_name="Retry Timeout for Errors")
    .define("errors.retry.delay.max.ms", LONG, 60000, MEDIUM,
            "The maximum delay between two retries; delays grow up to it.",
            group=ERROR_HANDLING, order=2, width=Width.MEDIUM,
            display_name="Maximum Delay Between Retries for Errors")
    .define("errors.tolerance", STRING, "none", MEDIUM,
            "none: a bad record fails the task. all: bad records are skipped.",
            group=ERROR_HANDLING, order=3, width=Width.SHORT, display_name="Error Tolerance",
            validator=one_of("none", "all"))
    .define("errors.log.enable", BOOLEAN, False, MEDIUM,
            "Whether to log every error, including tolerated ones.",
            group=ERROR_HANDLING, order=4, width=Width.SHORT, display_name="Log Errors")
    .define("errors.log.include.messages", BOOLEAN, False, MEDIUM,
            "Whether to log the record as well: its offset for sinks, all of it for sources.",
            group=ERROR_HANDLING, order=5, width=Width.SHORT, display_name="Log Error Details")
)  # fmt: skip

DEAD_LETTERS: Final = (
    ConfigDef()
    .define("errors.deadletterqueue.topic.name", STRING, "", MEDIUM,
            "The topic for records that could not be processed; empty for none.",
            group=ERROR_HANDLING, order=6, width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Name")
    .define("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3, MEDIUM,
            "The replication factor of this topic, if it is created.",
            group=ERROR_HANDLING, order=7, width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Replication Factor")
    .define("errors.deadletterqueue.context.headers.enable", BOOLEAN, False, MEDIUM,
            "Whether headers __connect.errors.* describe the error and the original record.",
            group=ERROR_HANDLING, order=8, width=Width.MEDIUM,
            display_name="Enable Error Context Headers")
)  # fmt: skip


def sink_config(base: ConfigDef) -> ConfigDef:
    base.define("topics", LIST, "", HIGH, "The topics to read.", group=COMMON, order=4,
                width=Width.LONG, display_name="Topics", validator=no_duplicates)  # fmt: skip
    base.define("topics.regex", STRING, "", HIGH,
                "A regular expression for the topics to read, instead of topics.",
                group=COMMON, order=4, width=Width.LONG, display_name="Topics regex",
                validator=regex)  # fmt: skip
    for key in DEAD_LETTERS.keys.values():
        base.add(key)
    return base


def source_config(base: ConfigDef) -> ConfigDef:
    base.define("topic.creation.groups", LIST, "", LOW,
                "The aliases of groups of settings for topics that the connector creates.",
                group=TOPIC_CREATION, order=1, width=Width.LONG,
                display_name="Topic Creation Groups", validator=unique_aliases)  # fmt: skip
    base.define("exactly.once.support", STRING, "requested", MEDIUM,
                "required: reject the config unless the connector supports exactly-once delivery. "
                "requested: accept the config without this check.",
                group=EXACTLY_ONCE, order=2, width=Width.SHORT,
                display_name="Exactly once support",
                validator=one_of_any_case("REQUIRED", "REQUESTED"))  # fmt: skip
    base.define("transaction.boundary", STRING, "poll", MEDIUM,
                "The extent of a transaction: the records of one poll (poll), those of an "
                "interval (interval), or what the connector defines (connector).",
                group=EXACTLY_ONCE, order=3, width=Width.SHORT,
                display_name="Transaction Boundary",
                validator=one_of_any_case("INTERVAL", "POLL", "CONNECTOR"))  # fmt: skip
    base.define("transaction.boundary.interval.ms", LONG, None, LOW,
                "The interval of transaction.boundary=interval.",
                group=EXACTLY_ONCE, order=4, width=Width.SHORT,
                display_name="Transaction boundary interval",
                validator=_null_or_positive)  # fmt: skip
    base.define("offsets.storage.topic", STRING, None, LOW,
                "A separate topic for the connector's offsets; empty for the worker's.",
                group="offsets.topic", order=1, width=Width.LONG, display_name="Offsets topic",
                validator=non_empty_string)  # fmt: skip
    return base


def _null_or_positive(name: str, value: Any) -> None:
    if value is not None:
        at_least(0)(name, value)


def sink_problems(props: dict[str, str]) -> list[tuple[str, str]]:
    """Errors in the topics of a sink, as pairs of setting and message."""
    topics = [topic.strip() for topic in (props.get("topics") or "").split(",") if topic.strip()]
    pattern = (props.get("topics.regex") or "").strip()
    dead_letter_topic = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    both = ("topics", "topics.regex")
    problems: list[tuple[str, str]] = []
    if topics and pattern:
        message = "topics and topics.regex are mutually exclusive options, but both are set."
        problems += [(name, message) for name in both]
    if not topics and not pattern:
        problems += [(name, "Must configure one of topics or topics.regex") for name in both]
    if dead_letter_topic and dead_letter_topic in topics:
        message = (
            f"The DLQ topic '{dead_letter_topic}' may not be included in the list of topics "
            f"('topics=[{', '.join(dict.fromkeys(topics))}]') consumed by the connector"
        )
        problems.append(("topics", message))
    if dead_letter_topic and pattern and _matches(pattern, dead_letter_topic):
        message = (
            f"The DLQ topic '{dead_letter_topic}' may not be matched by the regex for the topics "
            f"('topics.regex={pattern}') consumed by the connector"
        )
        problems.append(("topics.regex", message))
    return problems


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compile_regular_expression(pattern).fullmatch(topic) is not None
    except re.error:
        return False  # reported by the validator already
