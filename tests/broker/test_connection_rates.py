"""The rate of new connections: by address (KIP-612) and in total."""

from __future__ import annotations

import asyncio

from ottla.broker.connection_rates import ConnectionRates
from ottla.cluster.image import MetadataImage, StoredConfig
from ottla.config import ServerConfig
from ottla.testing.manual_clock import START_MS


def rates(properties: dict[str, str] | None = None, **limits: float) -> ConnectionRates:
    config = ServerConfig(properties or {})
    found = ConnectionRates(config)
    found.apply(image(**limits), config)
    return found


def image(**limits: float) -> MetadataImage:
    quotas = {
        (
            ("ip", None if name == "default" else name.replace("_", ".").removeprefix("ip.")),
        ): StoredConfig({"connection_creation_rate": repr(float(limit))}, 0)
        for name, limit in limits.items()
    }
    return MetadataImage(quotas=quotas)


def knock(found: ConnectionRates, host: str, count: int, now_ms: int = START_MS) -> int:
    """The number of accepted connections, out of `count`."""
    return sum(found.admit(host, now_ms) == (0, 0) for _ in range(count))


def test_without_a_limit_every_connection_is_accepted() -> None:
    assert knock(rates(), "10.0.0.1", 1000) == 1000


def test_an_address_has_its_own_limit_or_the_default() -> None:
    found = rates(ip_10_0_0_1=2, default=1)
    assert knock(found, "10.0.0.1", 100) == 20  # ten windows, each with two
    assert knock(found, "10.0.0.2", 100) == 10
    assert knock(found, "10.0.0.3", 5) == 5
    assert found.admit("10.0.0.1", START_MS) == (500, 0)
    assert knock(found, "10.0.0.1", 1, START_MS + 11_000) == 1


def test_no_connection_waits_longer_than_a_window() -> None:
    found = rates({"quota.window.num": "2"}, default=0.001)
    waits = [found.admit("10.0.0.1", START_MS)[0] for _ in range(3)]
    assert waits == [1000, 1000, 1000]


def test_a_removed_limit_no_longer_applies() -> None:
    config = ServerConfig({})
    found = rates(default=1)
    assert knock(found, "10.0.0.1", 100) == 10
    found.apply(image(), config)
    assert knock(found, "10.0.0.1", 100) == 100


def test_the_brokers_own_rate_delays_every_connection() -> None:
    found = rates({"max.connection.creation.rate": "5"})
    pauses = [found.admit(f"10.0.0.{number}", START_MS)[1] for number in range(52)]
    assert pauses[:50] == [0] * 50
    assert pauses[50:] == [200, 400]
    assert found.admit("10.0.0.1", START_MS + 11_000) == (0, 0)


def test_a_host_name_is_resolved() -> None:
    async def main() -> None:
        config = ServerConfig({})
        found = ConnectionRates(config)
        found.apply(image(localhost=1), config)
        for _ in range(6000):
            if "127.0.0.1" in found._limits or "::1" in found._limits:
                break
            await asyncio.sleep(0.01)
        host = next(iter(found._limits))
        assert knock(found, host, 100) == 10
        found.apply(image(localhost=1), config)
        found.stop()

    asyncio.run(main())


def test_the_number_of_remembered_addresses_is_limited() -> None:
    config = ServerConfig({})
    found = ConnectionRates(config, addresses_max=5)
    found.apply(image(default=100), config)
    for number in range(50):
        assert found.admit(f"10.0.0.{number}", START_MS) == (0, 0)
    assert len(found._rates) <= 5
