"""Details on which real clients depend: versions, metadata, topics and configs, byte by byte.

One test for each trap that applies to one broker; see also test_traps_data.py and
test_traps_groups.py. Every reply is read to its last byte in the version that was asked for.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_raw import KEYS, RawClient, code
from kio.schema.index import api_key_map, schema_name_map

from message_supplement import SUPPLEMENT

Until = Callable[[Callable[[], object], str], None]
ANY_ACL = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
SOFTWARE = {"client_software_name": "raw", "client_software_version": "1"}


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as opened:
        yield opened


def advertised(client: RawClient) -> dict[int, tuple[int, int]]:
    answer = client.call("api_versions", 0)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def create(client: RawClient, name: str, partitions: int = 1, **configs: str) -> Any:
    settings = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": settings,
    }
    (created,) = client.call("create_topics", 7, topics=[topic], timeout=30_000).topics
    assert created.error_code == code("none"), created
    return created


# ApiVersions


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_response_has_header_version_0(client: RawClient, version: int) -> None:
    """`receive` reads the body at byte 4: a tag buffer in the header would shift everything."""
    values = SOFTWARE if version >= 3 else {}
    answer = client.call("api_versions", version, **values)
    assert answer.error_code == code("none")
    assert len(answer.api_keys) >= 30


def test_unknown_api_versions_version_is_answered_in_version_0(bootstrap: str) -> None:
    """KIP-511: a newer client learns from the v0 body which versions it may use, and goes on."""
    with RawClient(bootstrap) as client:
        header = struct.pack(">hhih", 18, 99, 7, -1) + b"\x00"
        client.send_bytes(struct.pack(">i", len(header)) + header)
        frame = client.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", frame)
        assert (correlation_id, error) == (7, code("unsupported_version"))
        keys = [struct.unpack_from(">hhh", frame, 10 + i * 6) for i in range(count)]
        assert any(key == 18 and high >= 3 for key, _, high in keys)
        assert len(frame) == 10 + count * 6
        assert client.call("api_versions", 3, **SOFTWARE).error_code == code("none")


def test_api_versions_refuses_a_client_without_a_name(client: RawClient) -> None:
    answer = client.call("api_versions", 3, client_software_name="", client_software_version="")
    assert answer.error_code == code("invalid_request")


def test_a_client_meant_for_another_broker_must_bootstrap_again(client: RawClient) -> None:
    """KIP-1242: the address is right, but another broker listens there now."""
    if advertised(client)[18][1] < 5:
        pytest.skip("a broker before Kafka 4.4")
    cluster = client.call("describe_cluster", 0).cluster_id
    (node,) = (broker.broker_id for broker in client.call("describe_cluster", 0).brokers)

    def asked(**expected: Any) -> Any:
        return client.call("api_versions", 5, **SOFTWARE, **expected)

    assert asked(cluster_id=cluster, node_id=node).error_code == code("none")
    assert asked(cluster_id=None, node_id=-1).error_code == code("none")
    assert asked(cluster_id=None, node_id=node + 1).error_code == code("none")
    for wrong in ({"node_id": node + 1, "cluster_id": cluster}, {"cluster_id": "x" * 22}):
        answer = asked(**{"node_id": node, **wrong})
        assert answer.error_code == code("rebootstrap_required")
        assert answer.api_keys == ()


def test_produce_is_advertised_from_0_and_refused_below_3(bootstrap: str) -> None:
    """KAFKA-18659: librdkafka turns features off when Produce is not advertised from v0."""
    with RawClient(bootstrap) as client:
        assert advertised(client)[0][0] == 0
        request = struct.pack(">hhih", 0, 1, 1, -1) + struct.pack(">hii", 1, 1000, 0)
        client.send_bytes(struct.pack(">i", len(request)) + request)
        assert client.is_closed_by_broker()


def test_unadvertised_version_closes_the_connection(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        _, high = advertised(client)[3]
        request = struct.pack(">hhih", 3, high + 5, 1, -1) + b"\x00\x00"
        client.send_bytes(struct.pack(">i", len(request)) + request)
        assert client.is_closed_by_broker()


def test_advertised_versions_are_those_of_kafka(client: RawClient) -> None:
    for key, (low, high) in advertised(client).items():
        module = api_key_map[key]
        known = [version for version in schema_name_map[module] if version >= low]
        known += [SUPPLEMENT[module].version] if module in SUPPLEMENT else []
        assert high <= max(known), f"{api_key_map[key]} v{high} is not known to clients"
        assert key == 0 or low in known, f"{api_key_map[key]} v{low} is not known to clients"


def test_required_apis_are_advertised_in_all_versions(client: RawClient) -> None:
    """The reference table of Kafka 4.4; three of the APIs have a version less in 4.3."""
    wanted = {
        0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6),
        11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5),
        19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 32: (1, 4), 33: (0, 2),
        35: (1, 5), 37: (0, 3), 44: (0, 1), 47: (0, 0), 60: (0, 2), 75: (0, 0),
    }  # fmt: skip
    found = advertised(client)
    newer = {18: (0, 5), 28: (0, 6), 42: (0, 3)}
    older = {18: (0, 4), 28: (0, 5), 42: (0, 2)}
    assert {key: found.get(key) for key in newer} in (newer, older)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("api", sorted(KEYS))
def test_every_version_of_every_api_is_answered_to_the_byte(bootstrap: str, api: str) -> None:
    """An empty request in each version: one byte too many made librdkafka ask for 34 GB."""
    extra: dict[str, Any] = {
        "produce": {"acks": -1, "timeout": 1000},
        "join_group": {"session_timeout": 10_000},
        "describe_acls": ANY_ACL,
    }.get(api, {})
    with RawClient(bootstrap) as client:
        versions = advertised(client).get(KEYS[api])
        if versions is None:
            return  # what is not served is not advertised
        low = 3 if api == "produce" else versions[0]
        for version in range(low, versions[1] + 1):
            values = SOFTWARE if api == "api_versions" and version >= 3 else extra
            client.call(api, version, **values)


# Metadata


def test_metadata_of_all_topics_and_of_none(client: RawClient, topic_name: str) -> None:
    create(client, topic_name)
    for version in (0, 1, 6, 9, 12, 13):
        everything = client.call("metadata", version, topics=() if version == 0 else None)
        assert topic_name in {topic.name for topic in everything.topics}
        if version >= 1:
            assert client.call("metadata", version, topics=()).topics == ()
            assert everything.controller_id in {node.node_id for node in everything.brokers}


@pytest.mark.parametrize("version", [1, 4, 9, 12])
def test_metadata_creates_a_topic_when_asked(
    client: RawClient, topic_name: str, until: Until, version: int
) -> None:
    def ask() -> Any:
        (topic,) = client.call("metadata", version, topics=[{"name": topic_name}]).topics
        return topic

    first = ask()
    expected = (code("none"), code("leader_not_available"), code("unknown_topic_or_partition"))
    assert first.error_code in expected
    until(lambda: ask().error_code == code("none"), "the topic is there")
    assert len(ask().partitions) == 2


def test_metadata_creates_no_topic_when_auto_creation_is_off(
    client: RawClient, topic_name: str
) -> None:
    for version in (4, 9, 13):
        answer = client.call(
            "metadata", version, topics=[{"name": topic_name}], allow_auto_topic_creation=False
        )
        assert answer.topics[0].error_code == code("unknown_topic_or_partition")
        assert answer.topics[0].name == topic_name


def test_metadata_by_topic_id(client: RawClient, topic_name: str) -> None:
    topic_id = create(client, topic_name).topic_id
    by_name = client.call("metadata", 10, topics=[{"name": topic_name}]).topics[0]
    assert by_name.topic_id == topic_id
    by_id = client.call("metadata", 12, topics=[{"topic_id": topic_id, "name": None}]).topics[0]
    assert (by_id.name, by_id.error_code) == (topic_name, code("none"))
    stranger = uuid.uuid4()
    missing = client.call("metadata", 12, topics=[{"topic_id": stranger, "name": None}]).topics[0]
    assert (missing.error_code, missing.topic_id) == (code("unknown_topic_id"), stranger)


@pytest.mark.parametrize("name", ["no spaces", "a/b", "..", "", "x" * 250])
def test_metadata_of_an_illegal_name(client: RawClient, name: str) -> None:
    answer = client.call("metadata", 9, topics=[{"name": name}])
    assert answer.topics[0].error_code == code("invalid_topic_exception")


def test_metadata_names_the_advertised_listener(client: RawClient, bootstrap: str) -> None:
    answer = client.call("metadata", 12, topics=())
    (node,) = answer.brokers
    assert f"{node.host}:{node.port}" == bootstrap
    assert answer.cluster_id


# CreateTopics, DescribeTopicPartitions


@pytest.mark.parametrize("version", [5, 6, 7])
def test_create_topics_returns_the_configs_with_their_source(
    client: RawClient, unique: Callable[[str], str], version: int
) -> None:
    name = unique("configs")
    topic = {
        "name": name, "num_partitions": -1, "replication_factor": -1,
        "configs": [{"name": "retention.ms", "value": "1000000"}],
    }  # fmt: skip
    (created,) = client.call("create_topics", version, topics=[topic], timeout=30_000).topics
    assert created.error_code == code("none")
    assert (created.num_partitions, created.replication_factor) == (2, 1)
    assert created.topic_config_error_code == 0
    configs = {config.name: config for config in created.configs}
    assert configs["retention.ms"].value == "1000000"
    assert configs["retention.ms"].config_source == 1  # DYNAMIC_TOPIC_CONFIG
    assert configs["cleanup.policy"].config_source == 5  # DEFAULT_CONFIG
    assert all(1 <= config.config_source <= 6 for config in created.configs)


@pytest.mark.parametrize("version", [2, 4, 7])
def test_create_topics_refuses(
    client: RawClient, unique: Callable[[str], str], version: int
) -> None:
    twice = unique("twice")
    plain = {"num_partitions": 1, "replication_factor": 1}
    topics = [
        {"name": unique("config"), **plain, "configs": [{"name": "no.such", "value": "1"}]},
        {"name": "no spaces", **plain},
        {"name": unique("factor"), "num_partitions": 1, "replication_factor": 3},
        {"name": unique("none"), "num_partitions": 0, "replication_factor": 1},
        {"name": twice, **plain},
        {"name": twice, **plain},
    ]
    answer = client.call("create_topics", version, topics=topics, timeout=30_000)
    found = {topic.name: topic.error_code for topic in answer.topics}
    assert [found[topic["name"]] for topic in topics[:5]] == [
        code("invalid_config"),
        code("invalid_topic_exception"),
        code("invalid_replication_factor"),
        code("invalid_partitions"),
        code("invalid_request"),
    ]


def test_names_that_differ_only_in_dot_and_underscore_collide(
    client: RawClient, unique: Callable[[str], str]
) -> None:
    name = unique("collide")
    create(client, f"{name}.x")
    topic = {"name": f"{name}_x", "num_partitions": 1, "replication_factor": 1}
    (second,) = client.call("create_topics", 7, topics=[topic], timeout=30_000).topics
    assert second.error_code == code("invalid_topic_exception")


def test_describe_topic_partitions_has_arrays_where_java_wants_them(
    client: RawClient, topic_name: str, until: Until
) -> None:
    topic_id = create(client, topic_name, partitions=3).topic_id

    def ask() -> Any:
        request = {"topics": [{"name": topic_name}], "response_partition_limit": 2}
        return client.call("describe_topic_partitions", 0, **request)

    until(lambda: ask().topics[0].error_code == code("none"), "the topic is there")
    answer = ask()
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id, topic.error_code) == (topic_name, topic_id, code("none"))
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert partition.eligible_leader_replicas is not None
        assert partition.last_known_elr is not None
    cursor = answer.next_cursor
    assert (cursor.topic_name, cursor.partition_index) == (topic_name, 2)
    rest = client.call(
        "describe_topic_partitions", 0, topics=[{"name": topic_name}],
        response_partition_limit=2, cursor={"topic_name": topic_name, "partition_index": 2},
    )  # fmt: skip
    assert [partition.partition_index for partition in rest.topics[0].partitions] == [2]
    assert rest.next_cursor is None


def test_delete_topics_by_name_and_by_id(client: RawClient, unique: Callable[[str], str]) -> None:
    named, ided = unique("named"), unique("ided")
    create(client, named)
    topic_id = create(client, ided).topic_id
    ghost = unique("ghost")
    old = client.call("delete_topics", 1, topic_names=[named, ghost], timeout=30_000)
    assert {topic.name: topic.error_code for topic in old.responses} == {
        named: code("none"),
        ghost: code("unknown_topic_or_partition"),
    }
    topics = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": uuid.uuid4()}]
    new = client.call("delete_topics", 6, topics=topics, timeout=30_000)
    assert {topic.error_code for topic in new.responses} == {code("none"), code("unknown_topic_id")}


# Configs


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_describe_configs_returns_source_type_and_flags(
    client: RawClient, topic_name: str, until: Until, version: int
) -> None:
    create(client, topic_name, retention_ms="1000000")
    resource = {"resource_type": 2, "resource_name": topic_name, "configuration_keys": None}

    def ask() -> Any:
        answer = client.call(
            "describe_configs", version, resources=[resource], include_synonyms=True
        )
        return answer.results[0]

    until(lambda: ask().error_code == code("none"), "the topic is there")
    configs = {config.name: config for config in ask().configs}
    assert len(configs) >= 25
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source) == ("1000000", 1)
    assert (retention.read_only, retention.is_sensitive) == (False, False)
    assert retention.synonyms[0].source == 1
    assert configs["cleanup.policy"].config_source == 5
    if version >= 3:
        kinds = {name: config.config_type for name, config in configs.items()}
        assert kinds["retention.ms"] == 5  # LONG
        assert kinds["segment.bytes"] == 3  # INT
        assert kinds["preallocate"] == 1  # BOOLEAN
        assert kinds["cleanup.policy"] == 7  # LIST
        assert kinds["min.cleanable.dirty.ratio"] == 6  # DOUBLE


def test_describe_configs_of_some_keys(client: RawClient, topic_name: str, until: Until) -> None:
    create(client, topic_name)
    resource = {
        "resource_type": 2, "resource_name": topic_name,
        "configuration_keys": ["retention.ms", "no.such.config"],
    }  # fmt: skip

    def names() -> list[str]:
        answer = client.call("describe_configs", 4, resources=[resource])
        return [config.name for config in answer.results[0].configs or ()]

    until(lambda: names() == ["retention.ms"], "only what was asked for and is known")


def test_incremental_append_starts_from_the_default(
    client: RawClient, topic_name: str, until: Until
) -> None:
    create(client, topic_name)
    change = {"name": "cleanup.policy", "config_operation": 2, "value": "compact"}
    resource = {"resource_type": 2, "resource_name": topic_name, "configs": [change]}
    for version in (0, 1):
        answer = client.call("incremental_alter_configs", version, resources=[resource])
        assert answer.responses[0].error_code == code("none")
    described = {
        "resource_type": 2,
        "resource_name": topic_name,
        "configuration_keys": ["cleanup.policy"],
    }

    def policy() -> str | None:
        answer = client.call("describe_configs", 4, resources=[described])
        value: str | None = answer.results[0].configs[0].value
        return value

    until(lambda: policy() == "delete,compact", "appended once")


def test_validate_only_changes_nothing(client: RawClient, topic_name: str, until: Until) -> None:
    create(client, topic_name)
    change = {"name": "retention.ms", "config_operation": 0, "value": "5"}
    resource = {"resource_type": 2, "resource_name": topic_name, "configs": [change]}
    answer = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=True)
    assert answer.responses[0].error_code == code("none")
    asked = {
        "resource_type": 2,
        "resource_name": topic_name,
        "configuration_keys": ["retention.ms"],
    }
    described = client.call("describe_configs", 4, resources=[asked])
    assert described.results[0].configs[0].value == "604800000"


# What comes with a later issue, where it is advertised


def test_acl_apis_answer_on_a_plain_listener(client: RawClient) -> None:
    if 29 not in advertised(client):
        return  # not served yet, and so not advertised
    answer = client.call("describe_acls", 3, **ANY_ACL)
    assert answer.error_code == code("security_disabled")


def test_scram_users_that_do_not_exist_have_an_entry(client: RawClient) -> None:
    if 50 not in advertised(client):
        return  # not served yet, and so not advertised
    answer = client.call("describe_user_scram_credentials", 0, users=[{"name": "nobody"}])
    (result,) = answer.results
    assert (result.user, result.error_code) == ("nobody", code("resource_not_found"))
