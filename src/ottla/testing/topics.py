"""Topics over plain lines: a test that only wants one does not pay for an admin client."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ottla.client.protocol.connection import BrokerConnection, check
from ottla.errors import ErrorCode, KafkaError
from ottla.testing.ports import HOST
from ottla.wire.apis import ApiKey
from ottla.wire.messages import create_topics as creation
from ottla.wire.messages import metadata

TOPIC_S_MAX: Final = 30.0
LOOK_EVERY_S: Final = 0.01
OPEN: Final[Mapping[str, str]] = MappingProxyType({})  # what a line needs where everybody may enter


def create_topic(
    ports: Sequence[int],
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    settings: Mapping[str, str] = OPEN,
) -> None:
    """At whichever broker decides."""
    configured = [creation.CreatableTopicConfig(*each) for each in configs.items()]
    topic = creation.CreatableTopic(name, partitions, replication_factor, [], configured)
    request = creation.CreateTopicsRequest([topic], timeout=round(TOPIC_S_MAX * 1000))
    for port in ports:
        line = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            answer = line.call(request, ApiKey.CREATE_TOPICS, creation.CreateTopicsResponse)
        finally:
            line.close()
        result = answer.topics[0]
        if result.error_code != ErrorCode.NOT_CONTROLLER:
            break
    check(result.error_code, result.error_message)


def wait_for_topic(ports: Sequence[int], name: str, settings: Mapping[str, str] = OPEN) -> None:
    """Until each of these brokers knows it, and who leads its partitions."""
    deadline = time.monotonic() + TOPIC_S_MAX
    for port in ports:
        line = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            while not _is_known(line, name):
                if time.monotonic() > deadline:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{name} is not known everywhere")
                time.sleep(LOOK_EVERY_S)
        finally:
            line.close()


def wait_for_brokers(
    ports: Sequence[int], broker_ids: Sequence[int], settings: Mapping[str, str] = OPEN
) -> None:
    """Until the brokers at these ports know that those are alive."""
    deadline = time.monotonic() + TOPIC_S_MAX
    for port in ports:
        line = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            while missing := set(broker_ids) - _alive(line):
                if time.monotonic() > deadline:
                    message = f"brokers {sorted(missing)} are not known everywhere"
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
                time.sleep(LOOK_EVERY_S)
        finally:
            line.close()


def _alive(line: BrokerConnection) -> set[int]:
    request = metadata.MetadataRequest([], allow_auto_topic_creation=False)
    answer = line.call(request, ApiKey.METADATA, metadata.MetadataResponse)
    return {each.node_id for each in answer.brokers}


def _is_known(line: BrokerConnection, name: str) -> bool:
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    answer = line.call(request, ApiKey.METADATA, metadata.MetadataResponse)
    (topic,) = answer.topics
    return topic.error_code == 0 and all(each.error_code == 0 for each in topic.partitions)
