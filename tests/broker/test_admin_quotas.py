"""DescribeClientQuotas and AlterClientQuotas, as Apache Kafka 4.3.1 answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from admin_broker import AdminBroker, ScenarioRunner

from ottla.cluster import layout
from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCE, CONSUME, CONNECT = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"
EXACT, DEFAULT, ANY = 0, 1, 2

Entity = list[tuple[str, str | None]]
Operations = list[tuple[str, float, bool]]


@pytest.fixture
def run(tmp_path: Path) -> ScenarioRunner:
    return ScenarioRunner(tmp_path)


async def alter(
    broker: AdminBroker, *entries: tuple[Entity, Operations], validate: bool = False
) -> list[tuple[str, str | None, Entity]]:
    request = AlterClientQuotasRequest(
        entries=[
            EntryData([EntityData(*part) for part in entity], [OpData(*part) for part in ops])
            for entity, ops in entries
        ],
        validate_only=validate,
    )
    answer = await broker.ask(ApiKey.ALTER_CLIENT_QUOTAS, request)
    return [
        (
            ErrorCode(entry.error_code).name,
            entry.error_message,
            [(part.entity_type, part.entity_name) for part in entry.entity],
        )
        for entry in answer.entries
    ]


async def give(broker: AdminBroker, entity: Entity, **values: float) -> None:
    ops = [(name, value, False) for name, value in values.items()]
    ((code, message, _),) = await alter(broker, (entity, ops))
    assert (code, message) == ("NONE", None)


async def describe(
    broker: AdminBroker, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    request = DescribeClientQuotasRequest(
        [ComponentData(*component) for component in components], strict
    )
    answer = await broker.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    assert answer.error_code == 0
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


ENTITIES: list[Entity] = [
    [(USER, "a")],
    [(USER, None)],
    [(USER, "a"), (CLIENT, "c")],
    [(USER, "a"), (CLIENT, None)],
    [(USER, None), (CLIENT, "c")],
    [(USER, None), (CLIENT, None)],
    [(CLIENT, "c")],
    [(CLIENT, None)],
    [(USER, "with/slash é <default>")],
    [(USER, "<default>"), (CLIENT, "..")],
]


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_entity_type_has_its_own_key(entity: Entity) -> None:
    stored = tuple(sorted(entity))
    parts = layout.quota_key(stored).split("/")[2:]
    assert layout.quota_entity(parts) == stored


def test_filters(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        for entity in ENTITIES:
            await give(broker, entity, producer_byte_rate=1000.0)
        await give(broker, [(IP, "10.0.0.1")], connection_creation_rate=10.0)
        await give(broker, [(IP, None)], connection_creation_rate=11.0)
        assert len(await describe(broker)) == len(ENTITIES) + 2
        assert await describe(broker, strict=True) == {}
        of_a = await describe(broker, (USER, EXACT, "a"))
        assert [dict(entity).get(CLIENT, "-") for entity in of_a] == ["-", "c", None]
        assert list(await describe(broker, (USER, EXACT, "a"), strict=True)) == [((USER, "a"),)]
        default = await describe(broker, (USER, DEFAULT, None), strict=True)
        assert list(default) == [((USER, None),)]
        both = await describe(broker, (USER, ANY, None), (CLIENT, EXACT, "c"))
        assert [dict(entity)[USER] for entity in both] == ["a", None]
        assert await describe(broker, (IP, ANY, None)) == {
            ((IP, "10.0.0.1"),): {CONNECT: 10.0},
            ((IP, None),): {CONNECT: 11.0},
        }
        assert await describe(broker, (IP, DEFAULT, None)) == {((IP, None),): {CONNECT: 11.0}}

    run(scenario)


BAD_FILTERS = [
    ([("foo", EXACT, "a")], "UNSUPPORTED_VERSION", "Unsupported entity type foo"),
    ([("", EXACT, "a")], "INVALID_REQUEST", "Invalid empty entity type."),
    ([(USER, EXACT, None)], "INVALID_REQUEST", "MATCH_TYPE_EXACT, but set match string to null"),
    ([(USER, DEFAULT, "a")], "INVALID_REQUEST", "MATCH_TYPE_DEFAULT, but also specified"),
    ([(USER, ANY, "a")], "INVALID_REQUEST", "MATCH_TYPE_SPECIFIED, but also specified"),
    ([(USER, 7, None)], "INVALID_REQUEST", "Unknown match type 7"),
    ([(USER, EXACT, "a"), (USER, ANY, None)], "INVALID_REQUEST", "more than once in the filter"),
    ([(USER, ANY, None), (IP, ANY, None)], "INVALID_REQUEST", "IP filter component should not"),
]


@pytest.mark.parametrize(("components", "code", "message"), BAD_FILTERS)
def test_invalid_filters_are_refused(
    run: ScenarioRunner, components: list[tuple[str, int, str | None]], code: str, message: str
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        request = DescribeClientQuotasRequest(
            [ComponentData(*component) for component in components], False
        )
        answer = await broker.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
        assert ErrorCode(answer.error_code).name == code
        assert message in answer.error_message
        assert answer.entries is None

    run(scenario)


REFUSED: list[tuple[Entity, str, float, str]] = [
    ([], PRODUCE, 1.0, "Invalid empty client quota entity"),
    ([("foo", "x")], PRODUCE, 1.0, "Unhandled client quota entity type: foo"),
    ([(USER, "")], PRODUCE, 1.0, "Empty user not supported"),
    ([(USER, "a"), (IP, "10.0.0.1")], PRODUCE, 1.0, "Invalid quota entity combination"),
    ([(IP, "10.0.0.1")], PRODUCE, 1.0, "Invalid configuration key producer_byte_rate"),
    ([(IP, "1.2.3.400")], CONNECT, 1.0, "1.2.3.400 is not a valid IP or resolvable host."),
    ([(USER, "a")], CONNECT, 1.0, "Invalid configuration key connection_creation_rate"),
    ([(USER, "a")], PRODUCE, 0.0, "Quota producer_byte_rate must be greater than 0"),
    ([(USER, "a")], PRODUCE, float("nan"), "Quota producer_byte_rate must be greater than 0"),
    ([(USER, "a")], PRODUCE, 1.5, "producer_byte_rate cannot be a fractional value."),
    ([(USER, "a")], PRODUCE, 1e19, "too large for a LONG."),
    ([(IP, "10.0.0.1")], CONNECT, 3e9, "too large for an INT."),
]


@pytest.mark.parametrize(("entity", "name", "value", "message"), REFUSED)
def test_invalid_quotas_are_refused(
    run: ScenarioRunner, entity: Entity, name: str, value: float, message: str
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        ((code, found, _),) = await alter(broker, (entity, [(name, value, False)]))
        assert code == "INVALID_REQUEST"
        assert message in (found or "")
        assert await describe(broker) == {}

    run(scenario)


def test_entities_succeed_and_fail_separately(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        good: tuple[Entity, Operations] = ([(USER, "a")], [(PRODUCE, 5.0, False)])
        bad: tuple[Entity, Operations] = ([(USER, "b")], [(PRODUCE, -5.0, False)])
        assert [result[0] for result in await alter(broker, good, bad, validate=True)] == [
            "NONE",
            "INVALID_REQUEST",
        ]
        assert await describe(broker) == {}
        await alter(broker, good, bad)
        assert await describe(broker) == {((USER, "a"),): {PRODUCE: 5.0}}
        # Twice the same: the first counts, and the answer is a refusal.
        more: tuple[Entity, Operations] = ([(USER, "c")], [(CONSUME, 6.0, False)])
        again: tuple[Entity, Operations] = ([(USER, "c")], [(CONSUME, 7.0, False)])
        ((code, message, _),) = await alter(broker, more, again)
        assert code == "INVALID_REQUEST"
        assert message == "Ignoring duplicate entity ClientQuotaEntity(entries={user=c})"
        assert (await describe(broker))[((USER, "c"),)] == {CONSUME: 6.0}

    run(scenario)


def test_an_entity_without_quotas_is_deleted(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        entity: Entity = [(USER, "a"), (CLIENT, None)]
        await give(broker, entity, producer_byte_rate=5.0, request_percentage=0.5)
        await alter(broker, (entity, [(PRODUCE, 0.0, True), ("nope", 0.0, True)]))
        assert await describe(broker) == {
            ((CLIENT, None), (USER, "a")): {"request_percentage": 0.5}
        }
        await alter(broker, (entity, [("request_percentage", 0.0, True)]))
        assert await describe(broker) == {}
        assert broker.image.quotas == {}

    run(scenario)
