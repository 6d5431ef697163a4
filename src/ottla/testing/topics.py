"""Creates topics over our own connections, without the cost of an admin client."""

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
OPEN: Final[Mapping[str, str]] = MappingProxyType({})  # no security: no settings


def create_topic(
    ports: Sequence[int],
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    settings: Mapping[str, str] = OPEN,
) -> None:
    """Sent to any broker: it forwards the request to the controller."""
    configured = [creation.CreatableTopicConfig(*config) for config in configs.items()]
    topic = creation.CreatableTopic(name, partitions, replication_factor, [], configured)
    request = creation.CreateTopicsRequest([topic], timeout=round(TOPIC_S_MAX * 1000))
    for port in ports:
        connection = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            answer = connection.call(request, ApiKey.CREATE_TOPICS, creation.CreateTopicsResponse)
        finally:
            connection.close()
        result = answer.topics[0]
        if result.error_code != ErrorCode.NOT_CONTROLLER:
            break
    check(result.error_code, result.error_message)


def wait_for_topic(ports: Sequence[int], name: str, settings: Mapping[str, str] = OPEN) -> None:
    """Wait until each of these brokers knows the topic and its leaders."""
    deadline = time.monotonic() + TOPIC_S_MAX
    for port in ports:
        connection = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            while not _is_known(connection, name):
                if time.monotonic() > deadline:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{name} is not known everywhere")
                time.sleep(LOOK_EVERY_S)
        finally:
            connection.close()


def wait_for_brokers(
    ports: Sequence[int], broker_ids: Sequence[int], settings: Mapping[str, str] = OPEN
) -> None:
    """Wait until the brokers at these ports know that those ids are alive."""
    deadline = time.monotonic() + TOPIC_S_MAX
    for port in ports:
        connection = BrokerConnection(HOST, port, settings=settings, timeout_s=TOPIC_S_MAX)
        try:
            while missing := set(broker_ids) - _alive(connection):
                if time.monotonic() > deadline:
                    message = f"brokers {sorted(missing)} are not known everywhere"
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
                time.sleep(LOOK_EVERY_S)
        finally:
            connection.close()


def _alive(connection: BrokerConnection) -> set[int]:
    request = metadata.MetadataRequest([], allow_auto_topic_creation=False)
    answer = connection.call(request, ApiKey.METADATA, metadata.MetadataResponse)
    return {broker.node_id for broker in answer.brokers}


def _is_known(connection: BrokerConnection, name: str) -> bool:
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    answer = connection.call(request, ApiKey.METADATA, metadata.MetadataResponse)
    (topic,) = answer.topics
    return topic.error_code == 0 and all(
        partition.error_code == 0 for partition in topic.partitions
    )
