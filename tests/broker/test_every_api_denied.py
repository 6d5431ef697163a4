"""A client without rights, at every API: an authorization error, or an empty response.

Redpanda's CVE-2023-50976 was a forgotten API; this test covers all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, run
from every_request import GROUP, TOPIC, TXN, codes, requests

from ottla.auth.principal import user
from ottla.broker.authorization.api_authorizations import API_AUTHORIZATIONS
from ottla.broker.dispatch import ROUTES
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:admin",
}
DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
}
FREE = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}


def test_every_api_has_an_authorization_and_a_request() -> None:
    assert ROUTES.keys() <= API_AUTHORIZATIONS.keys()
    assert ROUTES.keys() == requests(bytes(16), 0).keys()


@pytest.mark.parametrize("newest", [True, False])
def test_cve_2023_50976_a_client_without_rights_gets_nothing_anywhere(
    tmp_path: Path, newest: bool
) -> None:
    async def walk(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("mallory")
        topic_id = client.topic_id(TOPIC)
        before = client.broker.image
        for key, route in ROUTES.items():
            version = route.version_max if newest else route.version_min
            request = requests(topic_id, version)[ApiKey(key)]()
            response = await client.ask(ApiKey(key), request, version)
            _check(ApiKey(key), version, response)
        assert client.broker.image.topics.keys() == before.topics.keys()
        assert client.broker.image.topics[TOPIC] == before.topics[TOPIC]
        assert (client.broker.image.acls, client.broker.image.quotas) == ({}, {})
        assert client.broker.partitions.leading(TOPIC, 0).log.end_offset == 0

    run(tmp_path, walk, **AUTHORIZER)


def _check(key: ApiKey, version: int, response: Any) -> None:
    what = f"{key.name} v{version}: {response}"
    if key in FREE:
        return
    if key is ApiKey.LIST_GROUPS:
        assert response.groups == [], what
    elif key is ApiKey.LIST_TRANSACTIONS:
        assert response.transaction_states == [], what
    elif key is ApiKey.DESCRIBE_CLUSTER:
        assert response.cluster_authorized_operations == 0, what
    elif key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        assert response.results == [], what  # these versions have no field for the error
    else:
        found = codes(response)
        assert found & DENIED, what
        assert found <= DENIED | {0}, what


@pytest.mark.parametrize("newest", [True, False])
def test_a_super_user_is_not_refused_anywhere(tmp_path: Path, newest: bool) -> None:
    """The same requests may fail for other reasons, but not for lack of a permission."""

    async def walk(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("admin")
        for key, route in ROUTES.items():
            version = route.version_max if newest else route.version_min
            request = requests(client.topic_id(TOPIC), version)[ApiKey(key)]()
            if key in (ApiKey.PUSH_TELEMETRY, ApiKey.JOIN_GROUP, ApiKey.ENVELOPE):
                continue  # these wait, or need an earlier request
            if key == ApiKey.DELETE_TOPICS:
                continue  # the others need the topic
            response = await client.ask(ApiKey(key), request, version)
            allowed = {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
            assert not codes(response) & (DENIED - allowed), f"{ApiKey(key).name}: {response}"

    run(tmp_path, walk, **AUTHORIZER)


def test_topic_names_are_not_disclosed(tmp_path: Path) -> None:
    """Existing and missing topics get the same error."""

    async def compare(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("mallory")
        named = requests(client.topic_id(TOPIC), 0)
        asked = named[ApiKey.METADATA]()
        there = (await client.ask(ApiKey.METADATA, asked)).topics[0]
        asked.topics[0].name = "no-such-topic"
        missing = (await client.ask(ApiKey.METADATA, asked)).topics[0]
        missing.name = there.name
        assert there == missing
        assert there.topic_id == bytes(16)
        asked.topics[0].name = None
        asked.topics[0].topic_id = client.topic_id(TOPIC)
        by_id = (await client.ask(ApiKey.METADATA, asked)).topics[0]
        assert (by_id.name, by_id.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        asked.topics = None
        assert (await client.ask(ApiKey.METADATA, asked)).topics == []

    run(tmp_path, compare, **AUTHORIZER)
    assert GROUP != TXN
