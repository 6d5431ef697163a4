"""Confluent's subject name strategies: the subject of the registry that a schema belongs to.

A strategy is a function of the topic, whether it is a key, and the record's name in its schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.client.serde import SerializationError

SubjectName = Callable[[str, bool, str], str]


def topic_name(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-key" if is_key else f"{topic}-value"


def record_name(topic: str, is_key: bool, record: str) -> str:
    return _named(record)


def topic_record_name(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-{_named(record)}"


def associated_name(topic: str, is_key: bool, record: str) -> str:
    """Confluent's fallback for a topic without an association, which serdes look up first
    (`SerdeSettings.association_namespace`)."""
    return topic_name(topic, is_key, record)


def no_name(topic: str, is_key: bool, record: str) -> str:
    raise SerializationError(f"no subject is associated with topic {topic}")


_BY_WORD: Final[dict[str, SubjectName]] = {
    "topic": topic_name,
    "record": record_name,
    "topicrecord": topic_record_name,
    "associated": associated_name,
}


def strategy_of(setting: Any) -> SubjectName:
    """A function, a word (TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED), or the name of Java's class."""
    if callable(setting):
        function: SubjectName = setting
        return function
    if str(setting).upper() == "NONE":
        return no_name
    last = str(setting).rpartition(".")[2].lower().replace("_", "")
    found = _BY_WORD.get(last.removesuffix("strategy").removesuffix("name"))
    if found is None:
        words = "TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy"
        raise ValueError(f"there is no subject name strategy {setting!r}: use {words}")
    return found


def _named(record: str) -> str:
    if not record:
        raise SerializationError(
            "this subject name strategy needs a schema with a name (a record in Avro, "
            "a title in JSON Schema)"
        )
    return record
