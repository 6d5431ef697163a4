"""Checks reachability and login before librdkafka is asked, which would retry for a long time."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Final

from ottla.auth.sasl_client import SASL_CLIENT_MECHANISMS
from ottla.client.bootstrap_servers import parse_bootstrap_servers
from ottla.client.delivery import Setting
from ottla.client.protocol.connection import CONNECT_S_MAX, BrokerConnection
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.security import mechanism_of, protocol_of
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

CLOSED_S: Final = 0.2


def probe(
    bootstrap_servers: str,
    settings: Mapping[str, Setting] | None = None,
    timeout_s: float = CONNECT_S_MAX,
) -> None:
    """Raise if no broker answers, or if it refuses the login. librdkafka would keep trying; a
    person at a prompt wants to know."""
    secured = settings and protocol_of(settings) != "PLAINTEXT"
    if secured and mechanism_of(settings or {}) in SASL_CLIENT_MECHANISMS:
        ConnectionPool(bootstrap_servers, settings=settings, timeout_s=timeout_s).first.close()
        return
    deadline = time.monotonic() + timeout_s
    reasons = []
    for host, port in parse_bootstrap_servers(bootstrap_servers):
        try:
            left = max(0.1, deadline - time.monotonic())
            socket.create_connection((host, port), timeout=left).close()
            if not secured:
                _check_plain(host, port, left)
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "cannot reach " + ", ".join(reasons))


def _check_plain(host: str, port: int, timeout_s: float) -> None:
    """A plaintext client at a listener that wants TLS or a login: librdkafka would try for half a
    minute, and then report a transport failure.

    Only the second close counts: a broker that shuts down closes its connections, too.
    """
    for last in (False, True):
        connection: BrokerConnection | None = None
        try:
            connection = BrokerConnection(host, port, settings={}, timeout_s=timeout_s)
            connection.call(MetadataRequest(topics=[]), ApiKey.METADATA, MetadataResponse)
            return
        except KafkaError as error:
            if error.code != ErrorCode.NETWORK_EXCEPTION:
                return  # librdkafka reports it
            if last:
                # Without TLS, ApiVersions is answered before the login.
                asks = "speak TLS" if connection is None else "ask for a login"
                raise KafkaError(
                    ErrorCode.NETWORK_EXCEPTION,
                    f"{host}:{port} closes the connection: it seems to {asks}, and"
                    " security.protocol is PLAINTEXT",
                ) from None
            time.sleep(CLOSED_S)
        finally:
            if connection is not None:
                connection.close()
