"""ASSERT TOPIC and ASSERT SCHEMA: wait until a topic or schema exists, or until it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.engine.entities import Entity, entity
from ottla.sql.engine.schemas import Schemas
from ottla.sql.engine.topic_client import TopicClient
from ottla.sql.syntax.statements import AssertSchema, AssertTopic

TIMEOUT_S: Final = 1.0
TIMEOUT_S_MAX: Final = 120.0
POLL_S: Final = 0.1


def assert_topic(statement: AssertTopic, cluster: TopicClient) -> Entity:
    def trouble() -> str:
        found = cluster.describe([statement.topic]).get(statement.topic)
        return _trouble(statement, len(found.replicas) if found else None)

    timeout_s = TIMEOUT_S if statement.timeout_ms is None else statement.timeout_ms / 1000
    _wait(trouble, timeout_s, "SHOW TOPICS; lists the topics there are.")
    return entity(
        "assert_topic", statement.text, topicName=statement.topic, exists=statement.exists
    )


def assert_schema(statement: AssertSchema, schemas: Schemas, default_s: float) -> Entity:
    subject, id_ = statement.subject, statement.schema_id
    named = "" if subject is None else f" subject name {subject}"
    named += "" if id_ is None else f" id {id_}"

    def trouble() -> str:
        if schemas.exists(subject, id_) is statement.exists:
            return ""
        return f"Schema with{named} {'does not exist' if statement.exists else 'exists'}"

    timeout_s = default_s if statement.timeout_ms is None else statement.timeout_ms / 1000
    _wait(trouble, timeout_s, "Is it registered? A longer TIMEOUT waits for it.")
    return entity("assert_schema", statement.text, subject=subject, id=id_, exists=statement.exists)


def _wait(trouble: Callable[[], str], timeout_s: float, remedy: str) -> None:
    """Poll until `trouble` returns nothing; SqlError after the timeout."""
    deadline = time.monotonic() + min(timeout_s, TIMEOUT_S_MAX)
    while True:
        found = trouble()
        if not found:
            return
        if time.monotonic() >= deadline:
            raise SqlError(found, remedy=remedy)
        time.sleep(POLL_S)


def _trouble(statement: AssertTopic, partitions: int | None) -> str:
    name = statement.topic
    if not statement.exists:
        return f"Topic {name} exists" if partitions is not None else ""
    if partitions is None:
        return f"Topic {name} does not exist"
    wanted = statement.properties.get("PARTITIONS")
    if wanted is not None and int(str(wanted)) != partitions:
        return (
            f"Mismatched configuration for topic {name}: For config partitions, expected {wanted}"
            f" got {partitions}"
        )
    return ""
