"""Settings that every connector has, whoever wrote it: names, defaults and groups are Kafka's."""

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
from ottla.rows.java.regular_expressions import compile_java

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
    """What sources and sinks share; converters' defaults are the worker's."""
    defaults, checks, offers = converters or {}, validators or {}, recommenders or {}
    config = (
        ConfigDef()
        .define("name", STRING, importance=HIGH, doc="The name of the connector.",
                group=COMMON, order=1, width=Width.MEDIUM, display_name="Connector name",
                validator=printable_string)
        .define("connector.class", STRING, importance=HIGH,
                doc="The connector: a class, or the short name of one.",
                group=COMMON, order=2, width=Width.LONG, display_name="Connector class")
        .define("connector.plugin.version", STRING, version, MEDIUM, "The connector's version.",
                group=COMMON, order=3, width=Width.MEDIUM, display_name="Connector version")
        .define("tasks.max", INT, 1, HIGH, "How many tasks the connector may have.",
                group=COMMON, order=4, width=Width.SHORT, display_name="Tasks max",
                validator=at_least(1))
        .define("tasks.max.enforce", BOOLEAN, True, LOW,
                "Whether a connector that makes more tasks than tasks.max fails.",
                group=COMMON, order=5, width=Width.SHORT, display_name="Enforce tasks max")
    )  # fmt: skip
    order = 6
    for half in ("key", "value", "header"):
        name = f"{half}.converter"
        config.define(name, CLASS, defaults.get(name), LOW,
                      f"What makes bytes of {half}s, and {half}s of bytes.",
                      group=COMMON, order=order, width=Width.SHORT,
                      display_name=f"{half.capitalize()} converter class",
                      validator=checks.get(name), recommender=offers.get(name))  # fmt: skip
        config.define(f"{name}.plugin.version", STRING, None, LOW,
                      f"The version of the {half} converter.",
                      group=COMMON, order=order + 1, width=Width.SHORT,
                      display_name=f"{half.capitalize()} converter version")  # fmt: skip
        order += 2
    config.define("transforms", LIST, "", LOW, "Names of the transforms, in their order.",
                  group="Transforms", order=12, width=Width.LONG, display_name="Transforms",
                  validator=unique_aliases)  # fmt: skip
    config.define("predicates", LIST, "", LOW, "Names of the predicates that transforms use.",
                  group="Predicates", order=13, width=Width.LONG, display_name="Predicates",
                  validator=unique_aliases)  # fmt: skip
    config.define("config.action.reload", STRING, "restart", LOW,
                  "What happens when a secret that the config refers to has changed.",
                  group=COMMON, order=14, width=Width.MEDIUM, display_name="Reload Action",
                  validator=one_of("none", "restart"))  # fmt: skip
    for key in ERRORS.keys.values():
        config.add(key)
    return config


ERRORS: Final = (
    ConfigDef()
    .define("errors.retry.timeout", LONG, 0, MEDIUM,
            "For how many ms what fails is tried again: 0 for not at all, -1 for ever.",
            group=ERROR_HANDLING, order=1, width=Width.MEDIUM,
            display_name="Retry Timeout for Errors")
    .define("errors.retry.delay.max.ms", LONG, 60000, MEDIUM,
            "The longest pause between two tries; pauses grow up to it.",
            group=ERROR_HANDLING, order=2, width=Width.MEDIUM,
            display_name="Maximum Delay Between Retries for Errors")
    .define("errors.tolerance", STRING, "none", MEDIUM,
            "none: a bad record fails the task. all: it is left out.",
            group=ERROR_HANDLING, order=3, width=Width.SHORT, display_name="Error Tolerance",
            validator=one_of("none", "all"))
    .define("errors.log.enable", BOOLEAN, False, MEDIUM,
            "Whether each bad record is told of in the log, also if errors are tolerated.",
            group=ERROR_HANDLING, order=4, width=Width.SHORT, display_name="Log Errors")
    .define("errors.log.include.messages", BOOLEAN, False, MEDIUM,
            "Whether the log tells of the record too: for sinks where it lies, for sources all.",
            group=ERROR_HANDLING, order=5, width=Width.SHORT, display_name="Log Error Details")
)  # fmt: skip

DEAD_LETTERS: Final = (
    ConfigDef()
    .define("errors.deadletterqueue.topic.name", STRING, "", MEDIUM,
            "The topic for records that could not be dealt with; empty for none.",
            group=ERROR_HANDLING, order=6, width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Name")
    .define("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3, MEDIUM,
            "How many replicas that topic gets when it is made.",
            group=ERROR_HANDLING, order=7, width=Width.MEDIUM,
            display_name="Dead Letter Queue Topic Replication Factor")
    .define("errors.deadletterqueue.context.headers.enable", BOOLEAN, False, MEDIUM,
            "Whether headers __connect.errors.* say what went wrong, and with which record.",
            group=ERROR_HANDLING, order=8, width=Width.MEDIUM,
            display_name="Enable Error Context Headers")
)  # fmt: skip


def sink_config(base: ConfigDef) -> ConfigDef:
    base.define("topics", LIST, "", HIGH, "The topics to read.", group=COMMON, order=4,
                width=Width.LONG, display_name="Topics", validator=no_duplicates)  # fmt: skip
    base.define("topics.regex", STRING, "", HIGH,
                "An expression for the topics to read, in place of topics.",
                group=COMMON, order=4, width=Width.LONG, display_name="Topics regex",
                validator=regex)  # fmt: skip
    for key in DEAD_LETTERS.keys.values():
        base.add(key)
    return base


def source_config(base: ConfigDef) -> ConfigDef:
    base.define("topic.creation.groups", LIST, "", LOW,
                "Names of groups of settings for topics that the connector makes.",
                group=TOPIC_CREATION, order=1, width=Width.LONG,
                display_name="Topic Creation Groups", validator=unique_aliases)  # fmt: skip
    base.define("exactly.once.support", STRING, "requested", MEDIUM,
                "required: refuse the config unless records are written exactly once. "
                "requested: take it as it is.",
                group=EXACTLY_ONCE, order=2, width=Width.SHORT,
                display_name="Exactly once support",
                validator=one_of_any_case("REQUIRED", "REQUESTED"))  # fmt: skip
    base.define("transaction.boundary", STRING, "poll", MEDIUM,
                "What is written in one transaction: what one poll brought (poll), what came in an "
                "interval (interval), or what the connector says (connector).",
                group=EXACTLY_ONCE, order=3, width=Width.SHORT,
                display_name="Transaction Boundary",
                validator=one_of_any_case("INTERVAL", "POLL", "CONNECTOR"))  # fmt: skip
    base.define("transaction.boundary.interval.ms", LONG, None, LOW, "That interval.",
                group=EXACTLY_ONCE, order=4, width=Width.SHORT,
                display_name="Transaction boundary interval",
                validator=_null_or_positive)  # fmt: skip
    base.define("offsets.storage.topic", STRING, None, LOW,
                "A topic for this connector's offsets alone; empty for the worker's.",
                group="offsets.topic", order=1, width=Width.LONG, display_name="Offsets topic",
                validator=non_empty_string)  # fmt: skip
    return base


def _null_or_positive(name: str, value: Any) -> None:
    if value is not None:
        at_least(0)(name, value)


def sink_problems(props: dict[str, str]) -> list[tuple[str, str]]:
    """What is wrong with the topics of a sink, and with which setting."""
    topics = [each.strip() for each in (props.get("topics") or "").split(",") if each.strip()]
    pattern = (props.get("topics.regex") or "").strip()
    letters = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    both = ("topics", "topics.regex")
    problems: list[tuple[str, str]] = []
    if topics and pattern:
        told = "topics and topics.regex are mutually exclusive options, but both are set."
        problems += [(name, told) for name in both]
    if not topics and not pattern:
        problems += [(name, "Must configure one of topics or topics.regex") for name in both]
    if letters and letters in topics:
        told = (
            f"The DLQ topic '{letters}' may not be included in the list of topics "
            f"('topics=[{', '.join(dict.fromkeys(topics))}]') consumed by the connector"
        )
        problems.append(("topics", told))
    if letters and pattern and _matches(pattern, letters):
        told = (
            f"The DLQ topic '{letters}' may not be matched by the regex for the topics "
            f"('topics.regex={pattern}') consumed by the connector"
        )
        problems.append(("topics.regex", told))
    return problems


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compile_java(pattern).fullmatch(topic) is not None
    except re.error:
        return False  # told of already
