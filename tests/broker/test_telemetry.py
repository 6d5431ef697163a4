"""Client metrics (KIP-714): subscriptions, intervals, pushes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from admin_broker import AdminBroker, ScenarioRunner
from data_path_broker import Client

from ottla.broker.broker import Broker
from ottla.broker.client_session import ClientSession
from ottla.broker.telemetry import ClientInstance, Telemetry
from ottla.cluster.image import StoredConfig
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.testing.manual_clock import START_MS, ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest

ME = b"0123456789abcdef"
DEFAULT_MS = 300_000


def resources(**values: Mapping[str, str]) -> dict[str, StoredConfig]:
    return {name: StoredConfig(value, 0) for name, value in values.items()}


def session(software: str = "librdkafka 2.11.0") -> ClientSession:
    found = ClientSession(listener="PLAINTEXT", client_host="10.0.0.7", client_port=4711)
    found.software = software
    return found


class Someone:
    """A client that gets subscriptions and pushes, with a manual clock."""

    def __init__(
        self, subscriptions: dict[str, StoredConfig], client_id: str = "app", **limits: int
    ) -> None:
        self.telemetry = Telemetry(urandom=lambda size: b"r" * size, **limits)
        self.resources = subscriptions
        self.client_id = client_id
        self.now_ms = START_MS

    def ask(self, instance_id: bytes = ME) -> ClientInstance:
        return self.telemetry.get_subscription(
            session(), self.client_id, instance_id, self.resources, self.now_ms
        )

    def push(self, subscription_id: int, **changes: Any) -> str:
        values = {"compression_type": 4, "terminating": False, "size": 10, "size_max": 100}
        try:
            self.telemetry.push(
                session(),
                self.client_id,
                changes.pop("instance_id", ME),
                self.resources,
                subscription_id=subscription_id,
                now_ms=self.now_ms,
                **{**values, **changes},
            )
        except KafkaError as error:
            return error.code.name
        return "NONE"


def test_a_client_without_a_subscription_pushes_nothing() -> None:
    found = Someone({}).ask(ZERO_UUID)
    assert (found.id, found.metrics, found.interval_ms) == (b"r" * 16, [], DEFAULT_MS)


def test_matching_subscriptions_are_merged() -> None:
    someone = Someone(
        resources(
            one={"metrics": "b., a.", "interval.ms": "2000"},
            two={"metrics": "a.,c.", "interval.ms": "1000", "match": "client_id=ap{2}"},
            other={"metrics": "*", "interval.ms": "100", "match": "client_id=ap"},
            empty={"interval.ms": "5000"},
        )
    )
    found = someone.ask()
    assert (found.metrics, found.interval_ms) == (["a.", "b.", "c."], 1000)


def test_an_asterisk_subscribes_to_all_metrics() -> None:
    found = Someone(resources(one={"metrics": "a."}, two={"metrics": "x,*"})).ask()
    assert found.metrics == ["*"]


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("client_software_name=librdkafka,client_software_version=2\\.1.*", True),
        ("client_software_name=apache-.*", False),
        ("client_source_address=10\\..*,client_source_port=4711", True),
        ("client_instance_id=MDEy.*", True),
        ("client_id=app,client_source_port=1", False),
    ],
)
def test_subscriptions_match_client_attributes(match: str, fits: bool) -> None:
    found = Someone(resources(one={"metrics": "*", "match": match})).ask()
    assert found.metrics == (["*"] if fits else [])


def test_the_subscription_id_follows_its_content() -> None:
    someone = Someone(resources(one={"metrics": "a."}))
    first = someone.ask().subscription_id
    assert -(2**31) <= first < 2**31
    someone.now_ms += DEFAULT_MS
    someone.resources = resources(one={"metrics": "a."})
    assert someone.ask().subscription_id == first
    someone.resources = resources(one={"metrics": "b."})
    someone.now_ms += DEFAULT_MS
    assert someone.ask().subscription_id != first


def test_push_intervals_are_enforced() -> None:
    someone = Someone(resources(one={"metrics": "*", "interval.ms": "1000"}))
    number = someone.ask().subscription_id
    with pytest.raises(KafkaError) as refused:
        someone.ask()
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    someone.now_ms += 10
    assert someone.push(number) == "NONE"  # the first may come early
    someone.now_ms += 999
    assert someone.push(number) == "THROTTLING_QUOTA_EXCEEDED"
    someone.now_ms += 1
    assert someone.push(number) == "NONE"
    someone.now_ms += 1
    assert someone.push(number, terminating=True) == "NONE"  # the last one, too
    someone.now_ms += 5000
    assert someone.push(number) == "INVALID_REQUEST"
    assert (someone.telemetry.pushed_count, someone.telemetry.pushed_bytes) == (3, 30)


def test_a_client_whose_subscription_changed_may_ask_at_once() -> None:
    someone = Someone(resources(one={"metrics": "*", "interval.ms": "1000"}))
    number = someone.ask().subscription_id
    someone.resources = resources(one={"metrics": "a.", "interval.ms": "1000"})
    someone.now_ms += 1
    assert someone.push(number) == "UNKNOWN_SUBSCRIPTION_ID"
    someone.now_ms += 1
    again = someone.ask()
    assert again.metrics == ["a."]
    someone.now_ms += 1
    assert someone.push(again.subscription_id) == "NONE"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"instance_id": ZERO_UUID}, "INVALID_REQUEST"),
        ({"compression_type": 5}, "UNSUPPORTED_COMPRESSION_TYPE"),
        ({"compression_type": -1}, "UNSUPPORTED_COMPRESSION_TYPE"),
        ({"size": 101}, "TELEMETRY_TOO_LARGE"),
        ({"size": 100, "compression_type": 0}, "NONE"),
    ],
)
def test_invalid_pushes_are_refused(changes: dict[str, Any], code: str) -> None:
    someone = Someone(resources(one={"metrics": "*"}))
    number = someone.ask().subscription_id
    someone.now_ms += 1
    assert someone.push(number, **changes) == code


def test_the_number_of_remembered_clients_is_limited() -> None:
    someone = Someone({}, clients_max=3)
    for number in range(9):
        someone.ask(bytes([number + 1]) * 16)
    assert len(someone.telemetry._instances) == 3


def test_the_apis_over_the_wire(tmp_path: Path) -> None:
    async def main() -> None:
        properties = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "ottla.metadata.sync.enable": "false",
            "telemetry.max.bytes": "50",
        }
        broker = Broker(ServerConfig(properties), clock=ManualClock())
        await broker.start()
        try:
            await talk(broker)
        finally:
            await broker.stop()

    async def talk(broker: Broker) -> None:
        client = Client(broker, "app")
        assert await listed(client) == set()
        values = {"metrics": "a.", "interval.ms": "1000"}
        await broker.settings.alter_client_metrics("m", lambda _: values)
        assert await listed(client) == {71, 72}
        ask = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
        found = await client.begin(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ask, 0)()
        assert (found.error_code, found.requested_metrics) == (0, ["a."])
        assert (found.push_interval, found.telemetry_max_bytes) == (1000, 50)
        assert (found.accepted_compression_types, found.delta_temporality) == ([4, 3, 1, 2], True)
        assert found.client_instance_id != ZERO_UUID
        again = GetTelemetrySubscriptionsRequest(client_instance_id=found.client_instance_id)
        early = await client.begin(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, again, 0)()
        assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await push(client, found, b"x" * 51) == ErrorCode.TELEMETRY_TOO_LARGE
        assert broker.telemetry.pushed_count == 0

    async def push(client: Client, found: Any, metrics: bytes) -> int:
        request = PushTelemetryRequest(
            client_instance_id=found.client_instance_id,
            subscription_id=found.subscription_id,
            metrics=metrics,
        )
        answer = await client.begin(ApiKey.PUSH_TELEMETRY, request, 0)()
        return int(answer.error_code)

    async def listed(client: Client) -> set[int]:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = await client.begin(ApiKey.API_VERSIONS, request, 4)()
        return {api_key.api_key for api_key in answer.api_keys} & {71, 72}

    asyncio.run(main())


def test_no_user_has_scram_credentials(tmp_path: Path) -> None:
    async def scenario(broker: AdminBroker) -> None:
        key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
        everybody = await broker.ask(key, DescribeUserScramCredentialsRequest(users=None))
        assert (everybody.error_code, everybody.results) == (0, [])
        users = [UserName("a"), UserName("b"), UserName("b")]
        some = await broker.ask(key, DescribeUserScramCredentialsRequest(users=users))
        assert [(result.user, ErrorCode(result.error_code).name) for result in some.results] == [
            ("a", "RESOURCE_NOT_FOUND"),
            ("b", "DUPLICATE_RESOURCE"),
        ]

    ScenarioRunner(tmp_path)(scenario)
