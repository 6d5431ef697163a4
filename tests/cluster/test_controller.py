"""The controller, the image that follows the store, and membership, on the embedded store."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.cluster.cluster_membership import ClusterMembership, cluster_id, random_uuid
from ottla.cluster.controller import Controller
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import NO_LEADER, MetadataImage, TopicImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.runtime_settings import ConfigChange, RuntimeSettings
from ottla.cluster.store import ANY_VERSION
from ottla.cluster.topics import TopicSpec
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError

LISTENERS = (
    Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),
    Listener("INSIDE", "::1", 9093, "SSL"),
)


class ControllerCluster:
    """The cluster parts of a broker, connected as in the broker."""

    def __init__(self, store: EmbeddedStore, broker_id: int = 0) -> None:
        self.store = store
        self.broker_id = broker_id
        self.config = ServerConfig({})
        self.metadata = MetadataCache(store)
        commits = MetadataWriter(store, self.metadata)
        self.settings = RuntimeSettings(store, commits, broker_id=broker_id)
        self.controller = Controller(
            store,
            self.metadata,
            commits,
            broker_id=broker_id,
            config=lambda: self.config,
            rng=random.Random(1),
        )

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def start(self) -> bool:
        await self.metadata.start()
        await cluster_id(self.store, self.metadata)
        self.membership = await ClusterMembership.register(
            self.store,
            self.metadata,
            broker_id=self.broker_id,
            listeners=LISTENERS,
            rack="r1",
            now_ms=1,
        )
        return await self.controller.elect(1)

    async def create(self, name: str, **spec: object) -> TopicImage:
        result = (await self.controller.create_topics([TopicSpec(name, **spec)]))[name]  # type: ignore[arg-type]
        if isinstance(result, KafkaError):
            raise result
        return result


def to(values: dict[str, str]) -> ConfigChange:
    return lambda present: values


def run(scenario: Callable[[ControllerCluster], Awaitable[None]], path: Path | None = None) -> None:
    async def session() -> None:
        store = EmbeddedStore(path, sync=False)
        house = ControllerCluster(store)
        assert await house.start()
        await scenario(house)
        await house.metadata.stop()
        await store.close()

    asyncio.run(session())


def test_a_started_broker_sees_itself() -> None:
    async def scenario(house: ControllerCluster) -> None:
        image = house.image
        assert image.controller_id == 0
        assert image.controller_epoch == 1
        assert len(image.cluster_id) == 22
        assert len(base64.urlsafe_b64decode(image.cluster_id + "==")) == 16
        broker = image.brokers[0]
        assert broker.listeners == LISTENERS
        assert broker.rack == "r1"
        assert broker.epoch == 1
        inside = broker.listener("INSIDE")
        assert inside is not None
        assert inside.host == "::1"
        assert broker.listener("OUTSIDE") is None

    run(scenario)


def test_a_created_topic_is_in_the_image_and_published_before_the_call_returns() -> None:
    async def scenario(house: ControllerCluster) -> None:
        received: list[int] = []
        house.metadata.add_listener(lambda image: received.append(len(image.topics)))
        created = await house.create("t", partition_count=3, configs={"retention.ms": "7"})
        assert received == [1]
        topic = house.image.topics["t"]
        assert topic == created
        assert topic.configs == {"retention.ms": "7"}
        assert [partition.leader for partition in topic.partitions] == [0, 0, 0]
        assert topic.replication_factor == 1
        assert not topic.internal
        assert house.image.topic_name(topic.id) == "t"
        assert house.image.topic_name(b"x" * 16) == ""
        for _ in range(10):  # the store repeats the change, which makes no new image
            await asyncio.sleep(0)
        assert received == [1]

    run(scenario)


def test_each_topic_of_a_request_succeeds_or_fails_alone() -> None:
    async def scenario(house: ControllerCluster) -> None:
        results = await house.controller.create_topics(
            [TopicSpec("a"), TopicSpec("b/c"), TopicSpec("d", replication_factor=3)]
        )
        assert isinstance(results["a"], TopicImage)
        codes = [r.code for r in results.values() if isinstance(r, KafkaError)]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR]
        assert set(house.image.topics) == {"a"}

    run(scenario)


def test_a_request_creates_a_limited_number_of_partitions() -> None:
    async def scenario(house: ControllerCluster) -> None:
        wishes = [TopicSpec("a", 9_999), TopicSpec("b", 2)]
        results = await house.controller.create_topics(wishes, validate_only=True)
        assert isinstance(results["a"], TopicImage)
        refused = results["b"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.POLICY_VIOLATION

    run(scenario)


def test_validate_only_changes_nothing() -> None:
    async def scenario(house: ControllerCluster) -> None:
        results = await house.controller.create_topics([TopicSpec("t", 2)], validate_only=True)
        topic = results["t"]
        assert isinstance(topic, TopicImage)
        assert len(topic.partitions) == 2
        assert house.image.topics == {}
        await house.create("t")
        grown = await house.controller.create_partitions({"t": (5, None)}, validate_only=True)
        assert grown == {"t": None}
        assert len(house.image.topics["t"].partitions) == 1

    run(scenario)


def test_topics_get_partitions_and_are_deleted() -> None:
    async def scenario(house: ControllerCluster) -> None:
        topic = await house.create("t", partition_count=1)
        results = await house.controller.create_partitions({"t": (3, None), "x": (3, None)})
        assert results["t"] is None
        missing = results["x"]
        assert missing is not None
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        grown = house.image.topics["t"]
        assert grown.id == topic.id
        assert [partition.index for partition in grown.partitions] == [0, 1, 2]
        assert grown.partitions[0] is house.image.topics["t"].partitions[0]
        deleted = await house.controller.delete_topics(["t", "x"])
        assert deleted["t"] is None
        assert deleted["x"] is not None
        assert house.image.topics == {}
        assert house.image.names_by_id == {}
        assert await house.store.list("/brokers/topics") == {}
        again = await house.create("t", partition_count=1)
        assert again.id != topic.id
        assert house.image.topic_name(again.id) == "t"

    run(scenario)


def test_configs_of_topics_and_brokers() -> None:
    async def scenario(house: ControllerCluster) -> None:
        await house.create("t")
        await house.settings.alter_topic_config("t", to({"retention.ms": "1"}))
        await house.settings.alter_topic_config("t", to({"segment.ms": "2"}))
        assert house.image.topics["t"].configs == {"segment.ms": "2"}
        await house.settings.alter_topic_config("t", to({}), validate_only=True)
        await house.settings.alter_topic_config("t", lambda present: {**present, "flush.ms": "1"})
        assert house.image.topics["t"].configs == {"segment.ms": "2", "flush.ms": "1"}
        await house.settings.alter_topic_config("t", to({}))
        assert house.image.topics["t"].configs == {}
        await house.settings.alter_broker_config("", to({"log.retention.ms": "3"}))
        await house.settings.alter_broker_config("0", to({"log.retention.ms": "4"}))
        assert house.image.broker_config("") == {"log.retention.ms": "3"}
        assert house.image.broker_config("0") == {"log.retention.ms": "4"}
        assert house.image.broker_config("7") == {}
        keys = set(await house.store.list("/config/brokers"))
        assert keys == {"/config/brokers/<default>", "/config/brokers/0"}
        with pytest.raises(KafkaError) as caught:
            await house.settings.alter_topic_config("none", to({}))
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_producer_ids_are_allocated_once_across_restarts(tmp_path: Path) -> None:
    blocks: list[tuple[int, int]] = []

    async def scenario(house: ControllerCluster) -> None:
        blocks.append(await house.settings.allocate_producer_ids())
        blocks.append(await house.settings.allocate_producer_ids(5))

    run(scenario, tmp_path / "j")
    run(scenario, tmp_path / "j")
    assert blocks == [(0, 1000), (1000, 5), (1005, 1000), (2005, 5)]


def test_all_metadata_survives_a_restart(tmp_path: Path) -> None:
    images: list[MetadataImage] = []

    async def before(house: ControllerCluster) -> None:
        await house.create("t", partition_count=2, configs={"retention.ms": "7"})
        await house.settings.alter_broker_config("", to({"log.retention.ms": "3"}))
        images.append(house.image)

    async def after(house: ControllerCluster) -> None:
        images.append(house.image)

    run(before, tmp_path / "j")
    run(after, tmp_path / "j")
    old, new = images
    assert new.topics == old.topics
    assert new.cluster_id == old.cluster_id
    assert new.broker_configs == old.broker_configs
    assert new.brokers[0].epoch == old.brokers[0].epoch + 1
    assert new.controller_epoch == old.controller_epoch + 1


def test_two_brokers_on_one_store_see_each_other_and_one_is_the_controller() -> None:
    async def scenario(house: ControllerCluster) -> None:
        other = ControllerCluster(house.store, 1)
        assert not await other.start()
        await asyncio.sleep(0)  # the first broker gets the change
        await house.create("t", replication_factor=2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert other.image == house.image
        assert set(other.image.brokers) == {0, 1}
        with pytest.raises(KafkaError) as caught:
            await other.create("u")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        await house.controller.resign()
        assert await other.controller.elect(2)
        assert other.image.controller_epoch == 2
        await other.create("u")
        with pytest.raises(KafkaError) as caught:
            await house.create("v")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        await other.membership.leave()
        assert set(other.image.brokers) == {0}
        await other.metadata.stop()

    run(scenario)


def test_a_former_controller_is_fenced_by_the_epoch() -> None:
    async def scenario(house: ControllerCluster) -> None:
        # Another broker has taken over, which this one has not noticed.
        await house.store.put("/controller_epoch", b"2", version=ANY_VERSION)
        with pytest.raises(KafkaError) as caught:
            await house.create("t")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert await house.store.list("/brokers/topics") == {}

    run(scenario)


def test_a_decision_on_a_stale_image_is_retried() -> None:
    async def scenario(house: ControllerCluster) -> None:
        topic = await house.create("t")
        value = b'{"version":1,"config":{"retention.ms":"9"}}'
        await house.store.create("/config/topics/t", value)  # not yet in the image
        assert house.image.topics["t"] == topic
        await house.settings.alter_topic_config("t", lambda now: {**now, "segment.ms": "2"})
        assert house.image.topics["t"].configs == {"retention.ms": "9", "segment.ms": "2"}

    run(scenario)


def test_a_second_broker_with_the_same_id_is_refused() -> None:
    async def scenario(house: ControllerCluster) -> None:
        twin = ControllerCluster(house.store)
        with pytest.raises(KafkaError) as caught:
            await twin.start()
        assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await twin.metadata.stop()

    run(scenario)


def test_metadata_that_cannot_be_read_is_ignored_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(house: ControllerCluster) -> None:
        await house.create("good")
        await house.store.create("/brokers/topics/bad", b"not json")
        await house.store.create("/brokers/topics/worse", b'{"partitions": 7}')
        await house.metadata.refresh()
        assert set(house.image.topics) == {"good"}

    run(scenario)
    assert "Ignoring the metadata of 'bad'" in caplog.text


def test_a_topic_without_states_has_no_leader_yet() -> None:
    async def scenario(house: ControllerCluster) -> None:
        value = b'{"topic_id": "MDEyMzQ1Njc4OWFiY2RlZg", "partitions": {"0": [0]}}'
        await house.store.create("/brokers/topics/t", value)
        await house.metadata.refresh()
        partition = house.image.topics["t"].partitions[0]
        assert (partition.leader, partition.isr) == (NO_LEADER, ())
        assert await house.controller.delete_topics(["t"]) == {"t": None}

    run(scenario)


def test_a_failing_listener_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(house: ControllerCluster) -> None:
        def fail(image: MetadataImage) -> None:
            raise RuntimeError("cannot cope")

        received: list[MetadataImage] = []
        house.metadata.add_listener(fail)
        house.metadata.add_listener(received.append)
        await house.create("t")
        assert len(received) == 1

    run(scenario)
    assert "A listener of metadata changes failed" in caplog.text


def test_random_ids_never_look_like_an_option() -> None:
    draws = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\x01" + bytes(15)])
    chosen = random_uuid(lambda count: next(draws))
    assert chosen[0] == 1
    assert next(draws, None) is None
    assert chosen != bytes(16)
    text = base64.urlsafe_b64encode(chosen).decode()
    assert not text.startswith("-")
