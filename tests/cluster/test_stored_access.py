"""ACLs, credentials and tokens in both stores, in Kafka's znodes and JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from zookeeper_stores import ZooKeeperStores

from ottla.auth.acls import Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource
from ottla.auth.principal import user
from ottla.auth.scram import ScramCredential
from ottla.auth.tokens import DelegationToken
from ottla.cluster import credentials
from ottla.cluster.acls import AclKey
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.cluster.store import MetaStore

READ = Acl(
    AclResource.TOPIC,
    "orders",
    AclPattern.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
OTHERS = [
    READ._replace(operation=AclOperation.DESCRIBE_CONFIGS, permission=AclPermission.DENY),
    READ._replace(principal="User:CN=a,O=b", host="10.0.0.1"),
    READ._replace(pattern=AclPattern.PREFIXED, name="ord"),
    READ._replace(name="*"),
    READ._replace(resource=AclResource.CLUSTER, name="kafka-cluster", operation=AclOperation.ALL),
    READ._replace(resource=AclResource.TRANSACTIONAL_ID, name="t 1"),
    READ._replace(resource=AclResource.USER, name="User:x", operation=AclOperation.CREATE_TOKENS),
]
TOKEN = DelegationToken("id-1", user("alice"), user("bob"), (user("carol"),), 1, 20, 30)

Scenario = Callable[[MetaStore, MetadataCache, RuntimeSettings], Coroutine[Any, Any, None]]


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Run a scenario with one broker's view of a store."""

    async def opened() -> MetaStore:
        if request.param == "embedded":
            return EmbeddedStore(tmp_path / "journal", sync=False)
        connect = request.getfixturevalue("zookeeper").connect
        return await ZooKeeperStores(connect).open()

    async def session(scenario: Scenario) -> None:
        store = await opened()
        metadata = MetadataCache(store)
        await metadata.start()
        try:
            settings = RuntimeSettings(store, MetadataWriter(store, metadata), broker_id=0)
            await scenario(store, metadata, settings)
        finally:
            await metadata.stop()
            await store.close()

    return lambda scenario: asyncio.run(session(scenario))


def acls(image: MetadataImage) -> set[Acl]:
    return {acl for stored in image.acls.values() for acl in stored.acls}


def test_acls_are_stored_where_kafka_stores_them(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        await settings.create_acls([READ, *OTHERS])
        assert acls(metadata.image) == {READ, *OTHERS}
        entry = await store.get("/kafka-acl/Topic/orders")
        assert entry is not None
        value = json.loads(entry.value)
        assert value["version"] == 1
        assert {
            "principal": "User:alice",
            "permissionType": "Deny",
            "operation": "DescribeConfigs",
            "host": "*",
        } in value["acls"]
        assert len(value["acls"]) == 3
        assert await store.get("/kafka-acl-extended/prefixed/Topic/ord") is not None
        assert await store.get("/kafka-acl/TransactionalId/t 1") is not None
        await settings.create_acls([READ])  # twice is not an error
        again = await store.get("/kafka-acl/Topic/orders")
        assert again == entry

    run(scenario)


def test_cve_2024_27309_acls_are_deleted_one_by_one(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        await settings.create_acls([READ, *OTHERS])
        kept = {READ, *OTHERS}
        for gone in (READ, *OTHERS[:2]):
            wanted = AclFilter(
                gone.resource,
                gone.name,
                gone.pattern,
                gone.principal,
                gone.host,
                gone.operation,
                gone.permission,
            )
            assert await settings.delete_acls([wanted]) == [[gone]]
            kept.discard(gone)
            assert acls(metadata.image) == kept
        assert await store.get("/kafka-acl/Topic/orders") is None
        match = AclFilter(AclResource.TOPIC, "orders", AclPattern.MATCH)
        nothing = AclFilter(principal="User:nobody")
        found = await settings.delete_acls([match, nothing, AclFilter(AclResource.USER)])
        assert [set(acls) for acls in found] == [{OTHERS[2], OTHERS[3]}, set(), {OTHERS[6]}]
        assert acls(metadata.image) == {OTHERS[4], OTHERS[5]}

    run(scenario)


def test_another_broker_follows(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        await settings.create_acls([READ, *OTHERS])
        await settings.alter_token("id-1", lambda present: TOKEN)
        other = MetadataCache(store)
        await other.start()
        assert acls(other.image) == {READ, *OTHERS}
        assert other.image.tokens["id-1"].token == TOKEN
        await settings.delete_acls([AclFilter()])
        async with asyncio.timeout(60):
            while acls(other.image):
                await asyncio.sleep(0.01)
        await other.stop()

    run(scenario)


def test_a_token_is_stored_as_in_kafka(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        await settings.alter_token("id-1", lambda present: TOKEN)
        entry = await store.get("/delegation_token/tokens/id-1")
        assert entry is not None
        assert json.loads(entry.value) == {
            "version": 3,
            "owner": "User:alice",
            "tokenRequester": "User:bob",
            "renewers": ["User:carol"],
            "issueTimestamp": 1,
            "maxTimestamp": 30,
            "expiryTimestamp": 20,
            "tokenId": "id-1",
        }
        later = replace(TOKEN, expires_ms=25)
        assert await settings.alter_token("id-1", lambda present: later) == later
        assert metadata.image.tokens["id-1"].token == later
        await settings.alter_token("id-1", lambda present: None)
        assert metadata.image.tokens == {}

    run(scenario)


def test_a_credential_is_stored_beside_quotas(run: Callable[[Scenario], None]) -> None:
    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        credential = ScramCredential.of_password("SCRAM-SHA-256", "p")
        name = "CN=a,O=ü"
        quotas = {"producer_byte_rate": "1024.0"}
        values = {**quotas, "SCRAM-SHA-256": str(credential)}
        await settings.alter_quotas([credentials.user_entity(name)], lambda entity, present: values)
        assert await store.get("/config/users/CN%3Da%2CO%3D%C3%BC") is not None
        image = metadata.image
        assert credentials.scram_credential(image, "SCRAM-SHA-256", name) == credential
        assert credentials.scram_credential(image, "SCRAM-SHA-512", name) is None
        assert credentials.scram_users(image) == {name: {"SCRAM-SHA-256": 4096}}

    run(scenario)


def test_an_acl_that_cannot_be_read_denies_and_the_others_stay(
    run: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    """It may have been a DENY. Deleting the DENY in its place deletes it from the store."""

    def closed(name: str) -> Acl:
        everybody = ("User:*", "*", AclOperation.ALL, AclPermission.DENY)
        return Acl(AclResource.TOPIC, name, AclPattern.LITERAL, *everybody)

    async def scenario(
        store: MetaStore, metadata: MetadataCache, settings: RuntimeSettings
    ) -> None:
        await store.create("/kafka-acl/Topic/bad", b"{")
        await store.create("/kafka-acl/Nonsense/x", b"{}")
        await store.create("/kafka-acl/Topic/worse", b'{"version":1,"acls":[{"host":"*"}]}')
        await settings.create_acls([READ])
        await metadata.refresh()
        assert acls(metadata.image) == {READ, closed("bad"), closed("worse")}
        path = AclKey.of(READ).path
        entry = await store.get(path)
        assert entry is not None
        damaged = json.loads(entry.value)
        damaged["acls"].append({**damaged["acls"][0], "operation": "Levitate"})
        await store.put(path, json.dumps(damaged).encode(), version=entry.version)
        await metadata.refresh()
        closing = closed(READ.name)
        assert acls(metadata.image) >= {READ, closing}
        await settings.delete_acls([AclFilter(name=READ.name, permission=AclPermission.DENY)])
        await metadata.refresh()
        assert acls(metadata.image) == {READ, closed("bad"), closed("worse")}
        healed = await store.get(path)
        assert healed is not None
        assert b"Levitate" not in healed.value

    run(scenario)
    assert "can't be read and denies everything" in caplog.text
