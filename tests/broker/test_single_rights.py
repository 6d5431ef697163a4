"""Each API with all of its required permissions, and with all except one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, code, run
from every_request import GROUP, TOPIC, TXN, codes, requests
from test_every_api_denied import AUTHORIZER, DENIED

from ottla.auth.acls import CLUSTER_NAME, Acl, AclFilter, AclOperation, AclPattern, AclResource
from ottla.auth.principal import user
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from ottla.wire.messages.fetch import ReplicaState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Right = tuple[str, AclResource]
NAMES = {
    AclResource.TOPIC: TOPIC,
    AclResource.GROUP: GROUP,
    AclResource.CLUSTER: CLUSTER_NAME,
    AclResource.TRANSACTIONAL_ID: TXN,
}
TOPICS, GROUPS, CLUSTER, TXNS = NAMES
T29 = ErrorCode.TOPIC_AUTHORIZATION_FAILED
G30 = ErrorCode.GROUP_AUTHORIZATION_FAILED
C31 = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
X53 = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

# What each API asks for, and Kafka's error code without it.
ASKED: dict[ApiKey, dict[Right, ErrorCode]] = {
    ApiKey.PRODUCE: {("WRITE", TOPICS): T29},
    ApiKey.FETCH: {("READ", TOPICS): T29},
    ApiKey.LIST_OFFSETS: {("DESCRIBE", TOPICS): T29},
    ApiKey.METADATA: {("DESCRIBE", TOPICS): T29},
    ApiKey.OFFSET_COMMIT: {("READ", GROUPS): G30, ("READ", TOPICS): T29},
    ApiKey.FIND_COORDINATOR: {("DESCRIBE", GROUPS): G30},
    ApiKey.HEARTBEAT: {("READ", GROUPS): G30},
    ApiKey.LEAVE_GROUP: {("READ", GROUPS): G30},
    ApiKey.SYNC_GROUP: {("READ", GROUPS): G30},
    ApiKey.DESCRIBE_GROUPS: {("DESCRIBE", GROUPS): G30},
    ApiKey.DELETE_RECORDS: {("DELETE", TOPICS): T29},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {("DESCRIBE", TOPICS): T29},
    ApiKey.ADD_OFFSETS_TO_TXN: {("WRITE", TXNS): X53, ("READ", GROUPS): G30},
    ApiKey.END_TXN: {("WRITE", TXNS): X53},
    ApiKey.WRITE_TXN_MARKERS: {("CLUSTER_ACTION", CLUSTER): C31},
    ApiKey.TXN_OFFSET_COMMIT: {
        ("WRITE", TXNS): X53,
        ("READ", GROUPS): G30,
        ("READ", TOPICS): T29,
    },
    ApiKey.DESCRIBE_ACLS: {("DESCRIBE", CLUSTER): C31},
    ApiKey.CREATE_ACLS: {("ALTER", CLUSTER): C31},
    ApiKey.ALTER_CONFIGS: {("ALTER_CONFIGS", TOPICS): T29},
    ApiKey.DESCRIBE_CONFIGS: {
        ("DESCRIBE_CONFIGS", TOPICS): T29,
        ("DESCRIBE_CONFIGS", CLUSTER): C31,
        ("DESCRIBE_CONFIGS", GROUPS): G30,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        ("ALTER_CONFIGS", TOPICS): T29,
        ("ALTER_CONFIGS", CLUSTER): C31,
    },
    ApiKey.ALTER_REPLICA_LOG_DIRS: {("ALTER", CLUSTER): C31},
    ApiKey.DESCRIBE_LOG_DIRS: {("DESCRIBE", CLUSTER): C31},
    ApiKey.CREATE_PARTITIONS: {("ALTER", TOPICS): T29},
    ApiKey.DELETE_GROUPS: {("DELETE", GROUPS): G30},
    ApiKey.ELECT_LEADERS: {("ALTER", CLUSTER): C31},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {("ALTER", CLUSTER): C31},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {("DESCRIBE", CLUSTER): C31},
    ApiKey.OFFSET_DELETE: {("DELETE", GROUPS): G30, ("READ", TOPICS): T29},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {("DESCRIBE_CONFIGS", CLUSTER): C31},
    ApiKey.ALTER_CLIENT_QUOTAS: {("ALTER_CONFIGS", CLUSTER): C31},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {("DESCRIBE", CLUSTER): C31},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {("ALTER", CLUSTER): C31},
    ApiKey.DESCRIBE_PRODUCERS: {("READ", TOPICS): T29},
    ApiKey.DESCRIBE_TRANSACTIONS: {("DESCRIBE", TXNS): X53},
    ApiKey.UNREGISTER_BROKER: {("ALTER", CLUSTER): C31},
    ApiKey.LIST_CONFIG_RESOURCES: {("DESCRIBE_CONFIGS", CLUSTER): C31},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {("READ", GROUPS): G30, ("DESCRIBE", TOPICS): T29},
    ApiKey.SHARE_GROUP_HEARTBEAT: {("READ", GROUPS): G30, ("DESCRIBE", TOPICS): T29},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {("READ", GROUPS): G30, ("DESCRIBE", TOPICS): T29},
    ApiKey.STREAMS_GROUP_DESCRIBE: {("DESCRIBE", GROUPS): G30},
    ApiKey.UPDATE_FEATURES: {("ALTER", CLUSTER): C31},
    ApiKey.DESCRIBE_QUORUM: {("DESCRIBE", CLUSTER): C31},
    # CVE-2026-41115: DESCRIBE, contrary to a document.
    ApiKey.CONSUMER_GROUP_DESCRIBE: {("DESCRIBE", GROUPS): G30, ("DESCRIBE", TOPICS): T29},
    ApiKey.SHARE_GROUP_DESCRIBE: {("DESCRIBE", GROUPS): G30},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {("DESCRIBE", TOPICS): T29},
    ApiKey.SHARE_FETCH: {("READ", GROUPS): G30, ("READ", TOPICS): T29},
    # In the session that SHARE_FETCH has opened.
    ApiKey.SHARE_ACKNOWLEDGE: {("READ", GROUPS): G30, ("READ", TOPICS): T29},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {("READ", GROUPS): G30, ("READ", TOPICS): T29},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {("DELETE", GROUPS): G30, ("READ", TOPICS): T29},
}


def rule(right: Right) -> Acl:
    operation, resource = right
    return Acl(
        resource,
        NAMES[resource],
        AclPattern.LITERAL,
        "User:alice",
        "*",
        AclOperation[operation],
        3,
    )


async def grant(client: Client, rights: Iterable[Right]) -> None:
    """Grants exactly these permissions."""
    await client.broker.settings.delete_acls([AclFilter()])
    await client.broker.settings.create_acls([rule(right) for right in rights])


async def asked(client: Client, key: ApiKey) -> set[int]:
    version = client.broker.served[key][1]
    request = requests(client.topic_id(TOPIC), version)[key]()
    return codes(await client.ask(key, request))


def test_each_permission_is_necessary_and_all_together_suffice(tmp_path: Path) -> None:
    async def walk(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        for key, rights in ASKED.items():
            for missing, expected in rights.items():
                await grant(client, (right for right in rights if right != missing))
                found = await asked(client, key)
                assert expected in found, f"{key.name} without {missing}: {found}"
            await grant(client, rights)
            found = await asked(client, key)
            assert not found & DENIED, f"{key.name} with all rights: {found}"

    run(tmp_path, walk, **AUTHORIZER)


def test_some_topics_of_a_request_are_allowed(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        await client.create("other")
        client._session.principal = user("alice")
        await grant(client, [("WRITE", TOPICS), ("READ", TOPICS)])
        request = client.produce_request(TOPIC, batch(b"v"))
        request.topic_data += client.produce_request("other", batch(b"v")).topic_data
        response = await client.ask(ApiKey.PRODUCE, request)
        reply = {topic.topic_id: topic.partition_responses[0] for topic in response.responses}
        assert code(reply[client.topic_id(TOPIC)]) == "NONE"
        assert code(reply[client.topic_id("other")]) == T29.name
        assert client.broker.partitions.leading("other", 0).log.end_offset == 0
        fetch = client.fetch_request(TOPIC, {0: 0})
        fetch.topics += client.fetch_request("other", {0: 0}).topics
        answers = (await client.ask(ApiKey.FETCH, fetch)).responses
        assert [code(answer.partitions[0]) for answer in answers] == ["NONE", T29.name]

    run(tmp_path, act, **AUTHORIZER)


def test_cve_2018_1288_a_consumer_cannot_fetch_as_a_follower(tmp_path: Path) -> None:
    """A client that claims to be a broker needs CLUSTER_ACTION, whatever it has read before."""

    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        await grant(client, [("READ", TOPICS)])
        assert code(await client.fetch(TOPIC, 0)) == "NONE"
        follower = {"replica_state": ReplicaState(7, 1)}
        assert code(await client.fetch(TOPIC, 0, **follower)) == T29.name
        await grant(client, [("CLUSTER_ACTION", CLUSTER)])
        assert code(await client.fetch(TOPIC, 0, **follower)) != T29.name

    run(tmp_path, act, **AUTHORIZER)


def test_an_acknowledgement_needs_its_session_then_its_topics(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        named = requests(client.topic_id(TOPIC), 1)
        acknowledges = named[ApiKey.SHARE_ACKNOWLEDGE]()
        await grant(client, [("READ", GROUPS), ("READ", TOPICS)])
        none_yet = codes(await client.ask(ApiKey.SHARE_ACKNOWLEDGE, acknowledges))
        assert none_yet == {ErrorCode.SHARE_SESSION_NOT_FOUND}
        await client.ask(ApiKey.SHARE_FETCH, named[ApiKey.SHARE_FETCH]())
        await grant(client, [("READ", GROUPS)])
        reply = codes(await client.ask(ApiKey.SHARE_ACKNOWLEDGE, acknowledges))
        assert reply == {ErrorCode.NONE, T29}

    run(tmp_path, act, **AUTHORIZER)


def test_cluster_action_lists_offsets_for_followers_only(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        await grant(client, [("CLUSTER_ACTION", CLUSTER)])
        request = requests(client.topic_id(TOPIC), 7)[ApiKey.LIST_OFFSETS]()
        for replica_id, expected in ((-1, T29), (7, ErrorCode.NONE)):
            request.replica_id = replica_id
            assert codes(await client.ask(ApiKey.LIST_OFFSETS, request, 7)) == {expected}

    run(tmp_path, act, **AUTHORIZER)


def test_delete_on_the_cluster_allows_deleting_every_topic(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        request = requests(client.topic_id(TOPIC), 6)[ApiKey.DELETE_TOPICS]()
        await grant(client, [("DESCRIBE", TOPICS)])
        assert codes(await client.ask(ApiKey.DELETE_TOPICS, request)) == {T29}
        await grant(client, [("DELETE", CLUSTER)])
        assert codes(await client.ask(ApiKey.DELETE_TOPICS, request)) == {ErrorCode.NONE}
        await grant(client, [("DESCRIBE", TOPICS)])  # and so may learn that it was deleted
        gone = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert codes(await client.ask(ApiKey.DELETE_TOPICS, request)) == gone

    run(tmp_path, act, **AUTHORIZER)


def test_an_impostor_cannot_end_a_followers_session(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        follower = {"replica_state": ReplicaState(7, 1)}
        client._session.principal = user("admin")
        asks = client.fetch_request(TOPIC, {0: 0}, session_epoch=0, **follower)
        first = await client.ask(ApiKey.FETCH, asks)
        assert first.session_id
        client._session.principal = user("alice")
        client._session.rights = None
        pretends = client.fetch_request(TOPIC, {0: 0}, session_epoch=0, **follower)
        answer = await client.ask(ApiKey.FETCH, pretends)
        assert (answer.session_id, code(answer.responses[0].partitions[0])) == (0, T29.name)
        client._session.principal = user("admin")
        client._session.rights = None
        more = client.fetch_request(
            TOPIC, {}, session_id=first.session_id, session_epoch=1, **follower
        )
        more.topics = []
        assert code(await client.ask(ApiKey.FETCH, more)) == "NONE"

    run(tmp_path, act, **AUTHORIZER)


def test_a_fetch_session_ends_with_the_permission_to_read(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        await grant(client, [("READ", TOPICS)])
        first = await client.ask(ApiKey.FETCH, client.fetch_request(TOPIC, {0: 0}, session_epoch=0))
        assert first.session_id
        await grant(client, [])
        more = client.fetch_request(TOPIC, {}, session_id=first.session_id, session_epoch=1)
        more.topics = []
        response = await client.ask(ApiKey.FETCH, more)
        assert code(response.responses[0].partitions[0]) == T29.name

    run(tmp_path, act, **AUTHORIZER)


@pytest.mark.parametrize("transactional_id", [None, TXN])
def test_cve_2018_17196_transactional_batches_need_permission(
    tmp_path: Path, transactional_id: str | None
) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        client._session.principal = user("alice")
        await grant(client, [("WRITE", TOPICS)])
        data = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        reply = await client.produce(TOPIC, data, transactional_id=transactional_id)
        assert code(reply) == X53.name
        plain = await client.produce(TOPIC, batch(b"v"), transactional_id=transactional_id)
        assert code(plain) == "NONE"  # no batch of it is part of a transaction

    run(tmp_path, act, **AUTHORIZER)


def test_an_idempotent_producer_needs_a_topic_to_write_to(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        client._session.principal = user("alice")

        async def reply(transactional_id: str | None = None) -> str:
            request = InitProducerIdRequest(transactional_id, 1000, -1, -1)
            return code(await client.ask(ApiKey.INIT_PRODUCER_ID, request))

        assert await reply() == C31.name
        assert await reply(TXN) == X53.name
        await grant(client, [("READ", TOPICS)])
        assert await reply() == C31.name
        await grant(client, [("WRITE", TOPICS)])
        assert await reply() == "NONE"
        await grant(client, [("IDEMPOTENT_WRITE", CLUSTER)])
        assert await reply() == "NONE"

    run(tmp_path, act, **AUTHORIZER)


def test_a_transaction_adds_all_topics_or_none(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        await client.create("other")
        client._session.principal = user("alice")
        request = requests(client.topic_id(TOPIC), 3)[ApiKey.ADD_PARTITIONS_TO_TXN]()
        request.v3_and_below_topics.append(AddPartitionsToTxnTopic("other", [0]))

        async def reply() -> dict[str, str]:
            response: Any = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)
            return {
                topic.name: ErrorCode(topic.results_by_partition[0].partition_error_code).name
                for topic in response.results_by_topic_v3_and_below
            }

        assert set((await reply()).values()) == {X53.name}
        await grant(client, [("WRITE", TXNS), ("WRITE", TOPICS)])
        assert await reply() == {TOPIC: "OPERATION_NOT_ATTEMPTED", "other": T29.name}

    run(tmp_path, act, **AUTHORIZER)


def test_coordinators_by_key(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        client._session.principal = user("alice")
        await grant(client, [("READ", GROUPS)])
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, "other"])
        found = (await client.ask(ApiKey.FIND_COORDINATOR, request)).coordinators
        assert {coordinator.key: code(coordinator) for coordinator in found} == {
            GROUP: "NONE",
            "other": G30.name,
        }
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[TXN])
        found = (await client.ask(ApiKey.FIND_COORDINATOR, request)).coordinators
        assert code(found[0]) == X53.name
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=["x"])
        found = (await client.ask(ApiKey.FIND_COORDINATOR, request)).coordinators
        assert code(found[0]) == C31.name

    run(tmp_path, act, **AUTHORIZER)


def test_describe_on_a_missing_topic_does_not_allow_creating_it(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        client._session.principal = user("alice")
        request = MetadataRequest(
            [MetadataRequestTopic(name=TOPIC)],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=True,
        )
        await grant(client, [("DESCRIBE", TOPICS)])
        (topic,) = (await client.ask(ApiKey.METADATA, request)).topics
        assert code(topic) == T29.name
        assert TOPIC not in client.broker.image.topics
        await grant(client, [("DESCRIBE", TOPICS), ("CREATE", TOPICS)])
        (topic,) = (await client.ask(ApiKey.METADATA, request)).topics
        assert code(topic) == "NONE"
        bits = 1 << AclOperation.DESCRIBE | 1 << AclOperation.CREATE
        assert topic.topic_authorized_operations == bits

    run(tmp_path, act, **AUTHORIZER)
