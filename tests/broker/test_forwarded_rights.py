"""Permissions in a cluster: a forwarded request has those of its client."""

from __future__ import annotations

from pathlib import Path

from cluster_brokers import Brokers, with_brokers
from data_path_broker import Client, batch, code
from test_every_api_denied import AUTHORIZER

from ottla.auth.acls import CLUSTER_NAME, Acl
from ottla.auth.principal import user
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

# Brokers connect in plaintext here, as ANONYMOUS; this is all that they need.
BROKERS = Acl(4, CLUSTER_NAME, 3, "User:ANONYMOUS", "*", 9, 3)
ALICE = [Acl(2, "mine", 4, "User:alice", "*", operation, 3) for operation in (3, 4, 5)]
CONTROLLER, OTHER = 1, 2


def by(brokers: Brokers, broker_id: int, name: str) -> Client:
    client = Client(brokers[broker_id])
    client._session.principal = user(name)
    return client


def create_request(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 1, 2) for name in names], 10_000)


def test_the_controller_uses_the_rights_of_the_forwarded_client(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers[CONTROLLER].settings.create_acls([BROKERS, *ALICE])
        await brokers.until(lambda: len(brokers[OTHER].image.acls) == 2)
        alice = by(brokers, OTHER, "alice")
        assert not brokers[OTHER].controller.active
        answer = await alice.ask(ApiKey.CREATE_TOPICS, create_request("mine-1", "theirs"))
        reply = {topic.name: code(topic) for topic in answer.topics}
        assert reply == {"mine-1": "NONE", "theirs": "TOPIC_AUTHORIZATION_FAILED"}
        # The forwarding broker may be behind, or lie: the controller authorizes again.
        brokers[OTHER].access = None
        answer = await by(brokers, OTHER, "mallory").ask(
            ApiKey.CREATE_TOPICS, create_request("mine-2")
        )
        assert code(answer.topics[0]) == "TOPIC_AUTHORIZATION_FAILED"
        assert "mine-2" not in brokers[CONTROLLER].image.topics

    with_brokers(tmp_path, scenario, count=2, **AUTHORIZER)


def test_brokers_replicate_and_create_topics_with_cluster_action_alone(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers[CONTROLLER].settings.create_acls([BROKERS, *ALICE])
        await brokers.until(lambda: len(brokers[OTHER].image.acls) == 2)
        alice = by(brokers, OTHER, "alice")
        request = MetadataRequest(
            [MetadataRequestTopic(name="mine-1")], allow_auto_topic_creation=True
        )
        (topic,) = (await alice.ask(ApiKey.METADATA, request)).topics
        assert code(topic) == "NONE"
        leader = topic.partitions[0].leader_id
        assert len(topic.partitions[0].replica_nodes) == 2
        reply = await by(brokers, leader, "alice").produce("mine-1", batch(b"v"), acks=-1)
        assert code(reply) == "NONE"  # the follower has fetched it

    properties = {"default_replication_factor": "2", "min_insync_replicas": "2"}
    with_brokers(tmp_path, scenario, count=2, **properties, **AUTHORIZER)


def test_an_envelope_is_for_brokers(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        mallory = by(brokers, CONTROLLER, "mallory")
        answer = await mallory.ask(ApiKey.ENVELOPE, EnvelopeRequest(b"x", b"", b"\x7f\0\0\1"))
        assert code(answer) == "CLUSTER_AUTHORIZATION_FAILED"
        # An authorized broker on a client listener: it could impersonate any client.
        admin = by(brokers, CONTROLLER, "admin")
        admin._session.listener = "EXTERNAL"
        answer = await admin.ask(ApiKey.ENVELOPE, EnvelopeRequest(b"x", b"", b"\x7f\0\0\1"))
        assert code(answer) == "CLUSTER_AUTHORIZATION_FAILED"

    with_brokers(tmp_path, scenario, count=1, **AUTHORIZER)
