"""Addresses of a cluster, as a person writes them: `host:port,[::1]:port`."""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError


def parse_servers(bootstrap_servers: str) -> list[tuple[str, int]]:
    """KafkaError says which part is not an address, in Kafka's words, and how one looks."""
    servers = []
    parts = [each for each in bootstrap_servers.split(",") if each.strip()]
    for each in parts or [bootstrap_servers]:
        host, colon, port = each.strip().rpartition(":")
        host = host.rpartition("://")[2].strip("[]")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid url in bootstrap.servers: {each.strip()}; an address is HOST:PORT, such"
                " as localhost:9092",
            )
        servers.append((host, int(port)))
    return servers
