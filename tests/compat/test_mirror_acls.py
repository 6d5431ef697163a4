"""ACLs of mirrored topics, between clusters that have an authorizer: Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat_brokers import ApacheBroker

from ottla.client import Admin
from ottla.client.acls import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ottla.connect.connectors.mirror.source import MirrorSourceConnector

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]


def acl(topic: str, who: str, operation: AclOperation) -> Acl:
    kind = (AclResource.TOPIC, topic, AclPattern.LITERAL)
    return Acl(*kind, f"User:{who}", "*", operation, AclPermission.ALLOW)


def test_permission_to_read_a_topic_extends_to_its_copy(tmp_path: Path) -> None:
    broker = ApacheBroker(
        tmp_path,
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    ).start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.topics.create("orders", partitions=1, replication_factor=1)
            given = [
                acl("orders", "ann", AclOperation.READ),
                acl("orders", "bob", AclOperation.WRITE),
                acl("orders", "cleo", AclOperation.ALL),
                acl("other", "ann", AclOperation.READ),
            ]
            admin.acls.create(given)
            connector = MirrorSourceConnector()
            connector.start(
                {
                    "source.cluster.alias": "A",
                    "target.cluster.alias": "B",
                    "source.cluster.bootstrap.servers": broker.bootstrap,
                    "target.cluster.bootstrap.servers": broker.bootstrap,
                    "topics": "orders",
                    "replication.factor": "1",
                    "emit.offset-syncs.enabled": "false",
                }
            )
            connector.stop()
            copies = [
                acl("A.orders", "ann", AclOperation.READ),
                acl("A.orders", "cleo", AclOperation.READ),
            ]
            found = admin.acls.describe(AclResource.TOPIC)
        assert sorted(found) == sorted([*given, *copies])
    finally:
        broker.kill()
