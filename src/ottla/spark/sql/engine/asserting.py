"""ASSERT TOPIC: waits for a topic to be there, or to be gone."""

from __future__ import annotations

import time
from typing import Final

from ottla.spark.sql.engine.cluster import Cluster
from ottla.spark.sql.engine.entities import Entity, entity
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.syntax.statements import AssertTopic

TIMEOUT_S: Final = 1.0
TIMEOUT_S_MAX: Final = 120.0
POLL_S: Final = 0.1


def assert_topic(statement: AssertTopic, cluster: Cluster) -> Entity:
    wish = TIMEOUT_S if statement.timeout_ms is None else statement.timeout_ms / 1000
    deadline = time.monotonic() + min(wish, TIMEOUT_S_MAX)
    while True:
        found = cluster.describe([statement.topic]).get(statement.topic)
        trouble = _trouble(statement, len(found.replicas) if found else None)
        if not trouble:
            break
        if time.monotonic() >= deadline:
            raise SqlError(trouble, remedy="SHOW TOPICS; lists the topics there are.")
        time.sleep(POLL_S)
    return entity(
        "assert_topic", statement.text, topicName=statement.topic, exists=statement.exists
    )


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
