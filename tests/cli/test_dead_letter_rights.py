"""Dead letters and redrive with an authorizer: the permissions of workers and operators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Consumer, KafkaError, Producer, ShareConsumer
from ottla.client.configs import ResourceType
from ottla.errors import ErrorCode
from ottla.testing import LocalCluster

Tool = Callable[..., Any]
USERS = {"ann": "ann-secret", "worker": "worker-secret", "operator": "operator-secret"}
DEADLINE_S = 60
JOBS, GROUP, DLQ = "jobs", "workers", "dlq.workers"
REDRIVE = ("DESCRIBE group:workers", "DESCRIBE_CONFIGS group:workers", "READ topic:dlq.workers")
REDRIVE += ("READ topic:jobs", "WRITE topic:jobs", "READ group:ottla.redrive.workers")
REDRIVE += ("WRITE transactional-id:ottla.redrive.workers",)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ann",
    }
    with LocalCluster(security="sasl_plaintext", users=USERS, config=config) as cluster:
        yield cluster


def client_file(folder: Path, user: str) -> str:
    """As security.md has it, in Java's names."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path = folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{user}" password="{USERS[user]}";\n'
    )
    return str(path)


def allow(run: Tool, cluster: LocalCluster, folder: Path, user: str, *rights: str) -> None:
    for right in rights:
        words = ("-b", cluster.bootstrap_servers, "--command-config", client_file(folder, "ann"))
        ran = run(main, "acls", "add", user, *right.split(" "), *words)
        assert ran.code == 0, ran.err


def reject_one(cluster: LocalCluster, admin: Admin) -> None:
    settings = cluster.client_settings("worker")
    deadline = time.monotonic() + DEADLINE_S
    with ShareConsumer(cluster.bootstrap_servers, JOBS, group=GROUP, settings=settings) as consumer:
        while consumer.poll(0.5) is None:
            assert time.monotonic() < deadline
        consumer.reject()
        consumer.commit()
    while any(getattr(offset, "lag", 1) for offset in admin.shares.offsets(GROUP).values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_verb_needs_the_documented_rights(
    run: Tool, cluster: LocalCluster, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    with Admin(servers, settings=cluster.client_settings("ann")) as admin:
        admin.topics.create(JOBS, 1)
        admin.topics.create(DLQ, 1, configs={"errors.deadletterqueue.group.enable": "true"})
        configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": DLQ}
        admin.configs.alter(ResourceType.GROUP, GROUP, set=configs)
        allow(run, cluster, tmp_path, "worker", "READ topic:jobs", "READ group:workers")
        with Producer(servers, value=str, settings=cluster.client_settings("ann")) as producer:
            producer.send(JOBS, "bad").result()
        # The worker may not write dead letters: the broker writes them with its own permissions.
        reject_one(cluster, admin)
    with Consumer(
        servers, DLQ, auto_offset_reset="earliest", settings=cluster.client_settings("ann")
    ) as consumer:
        (letter,) = consumer.take(1)
    assert dict(letter.headers)["__dlq.errors.group"] == GROUP.encode()
    with (
        Consumer(servers, DLQ, group=GROUP, settings=cluster.client_settings("worker")) as reader,
        pytest.raises(KafkaError) as refused,
    ):
        reader.take(1)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    words = ("-b", servers, "--command-config", client_file(tmp_path, "operator"))
    ran = run(main, "groups", "redrive", GROUP, *words)
    assert ran.code == 1
    assert "not authorized" in ran.err
    allow(run, cluster, tmp_path, "operator", *REDRIVE)
    ran = run(main, "groups", "redrive", GROUP, *words)
    assert "1 record redriven from dlq.workers." in ran.out, ran.err
