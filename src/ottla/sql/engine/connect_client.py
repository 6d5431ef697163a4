"""The client of the Connect worker that executes connector statements.

The settings are ksqlDB's: `ksql.connect.url` and others with that prefix.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from ottla.client.connect_client import ConnectClient, InvalidWorkerUrl, Login, address
from ottla.client.tls import client_context
from ottla.config import parse_properties
from ottla.errors import KafkaError
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.ksql_config import (
    CONNECT_LOGIN,
    CONNECT_LOGIN_FILE,
    CONNECT_PREFIX,
    CONNECT_TIMEOUT_MS,
    CONNECT_URL,
    PROPERTIES,
    KsqlConfig,
)


def connect_client(settings: KsqlConfig) -> ConnectClient:
    """A client for one statement. Credential files are read each time, so that changes to them take
    effect at once."""
    url, timeout_ms = settings.get(CONNECT_URL), settings.get(CONNECT_TIMEOUT_MS)
    try:
        for name in (CONNECT_TIMEOUT_MS, CONNECT_LOGIN):
            PROPERTIES[name].check(settings.get(name))
        secure = address(url).scheme == "https"
        return ConnectClient(
            url,
            timeout_s=int(timeout_ms) / 1000,
            login=_login(settings),
            tls=_tls(settings) if secure else None,
        )
    except (SqlError, InvalidWorkerUrl, KafkaError) as error:
        raise SqlError(
            f"The server's settings {CONNECT_PREFIX}* for the Connect worker are invalid: {error}",
            remedy="Correct them in the server's properties file.",
            code=SqlCode.SERVER_ERROR,
        ) from None


def _login(settings: KsqlConfig) -> Login | None:
    if settings.get(CONNECT_LOGIN).upper() != "FILE":
        return None
    path = settings.get(CONNECT_LOGIN_FILE)
    if not path:
        raise SqlError(
            f"'{CONNECT_LOGIN_FILE}' cannot be empty if '{CONNECT_LOGIN}' is set to 'FILE'"
        )
    try:
        found = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SqlError(f"{CONNECT_LOGIN_FILE}={path}: {reason}") from None
    if "username" not in found or "password" not in found:
        raise SqlError(f"{CONNECT_LOGIN_FILE}={path}: it must contain username and password")
    return Login(found["username"], found["password"])


def _tls(settings: KsqlConfig) -> ssl.SSLContext:
    """`ksql.connect.ssl.*`, or `ssl.*` where that is not set, as in ksqlDB."""
    plain = {name: value for name, value in settings.properties.items() if name.startswith("ssl.")}
    own = {
        name.removeprefix(CONNECT_PREFIX): value
        for name, value in settings.properties.items()
        if name.startswith(f"{CONNECT_PREFIX}ssl.")
    }
    return client_context(plain | own)
