"""`bootstrap.servers`: `host:port,[::1]:port`."""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError


def parse_bootstrap_servers(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Raise a KafkaError in Kafka's words that names the part that is not an address."""
    servers = []
    parts = [part for part in bootstrap_servers.split(",") if part.strip()]
    for part in parts or [bootstrap_servers]:
        host, colon, port = part.strip().rpartition(":")
        host = host.rpartition("://")[2].strip("[]")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid url in bootstrap.servers: {part.strip()}; an address is HOST:PORT, such"
                " as localhost:9092",
            )
        servers.append((host, int(port)))
    return servers
