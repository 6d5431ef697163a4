"""The subjects that a schema must belong to, and whether the registry confirms it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.schemas.framing import split_frame
from ottla.storage.log_config import TOPIC_NAME_STRATEGY, LogConfig

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry

TOPIC_RECORD_NAME: Final = ".TopicRecordNameStrategy"
DEFAULT_CONTEXT: Final = "."
NOT_FOUND: Final = 404


class SubjectRule(NamedTuple):
    """The subjects that the schemas of a topic's keys or values may belong to."""

    strategy: str
    topic: str
    side: str  # key or value

    @property
    def subject(self) -> str:
        """In words, where it depends on the record's name."""
        if self.strategy == TOPIC_NAME_STRATEGY:
            return f"{self.topic}-{self.side}"
        of_topic = self.strategy.endswith(TOPIC_RECORD_NAME)
        return f"{self.topic}-<record name>" if of_topic else "<record name>"

    def subjects(self, record_names: Callable[[], Iterable[str]]) -> set[str]:
        if self.strategy == TOPIC_NAME_STRATEGY:
            return {self.subject}
        if self.strategy.endswith(TOPIC_RECORD_NAME):
            return {f"{self.topic}-{name}" for name in record_names()}
        return set(record_names())


def rules_of(topic: str, config: LogConfig) -> tuple[SubjectRule | None, SubjectRule | None]:
    key = SubjectRule(config.confluent_key_subject_name_strategy, topic, "key")
    value = SubjectRule(config.confluent_value_subject_name_strategy, topic, "value")
    return (
        key if config.confluent_key_schema_validation else None,
        value if config.confluent_value_schema_validation else None,
    )


def judge(registry: SchemaRegistry, rule: SubjectRule, frame: bytes) -> str | None:
    """On a helper thread: why the schema is refused, or None if it is accepted."""
    from ottla.client.schema_registry import SchemaRegistryError
    from ottla.schemas.record_names import record_names

    name, _ = split_frame(frame)
    try:
        id_ = _id_of(registry, name.guid) if name.guid else name.id
        found = set(registry.get("schemas", "ids", str(id_), "subjects"))
        wanted = rule.subjects(lambda: record_names(registry.parsed(registry.by_id(id_))))
        if found & wanted or found & _aliases(registry, wanted):
            return None
    except SchemaRegistryError as error:
        if error.status != NOT_FOUND:
            raise
    finally:
        registry.close()  # the thread's connection: new schemas are rare
    return f"{name} is not a schema of the subject {rule.subject}"


def _id_of(registry: SchemaRegistry, guid: str) -> int:
    ids = registry.get("schemas", "guids", guid, "ids")
    return next((known["id"] for known in ids if known["context"] == DEFAULT_CONTEXT), 0)


def _aliases(registry: SchemaRegistry, subjects: Iterable[str]) -> set[str]:
    """The subjects behind these aliases."""
    from ottla.client.schema_registry import SchemaRegistryError

    found = set()
    for subject in subjects:
        try:
            config: dict[str, Any] = registry.get("config", subject)
        except SchemaRegistryError as error:
            if error.status != NOT_FOUND:
                raise
        else:
            found.add(config.get("alias") or "")
    return found
