"""Where the Connect worker is that connector statements are asked of, and how to log in there.

The names are ksqlDB's: `ksql.connect.url` and what begins like it.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from ottla.client.connect_worker import InvalidUrl, Login, Rest, address
from ottla.client.tls import client_context
from ottla.config import parse_properties
from ottla.errors import KafkaError
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.settings import (
    CONNECT_LOGIN,
    CONNECT_LOGIN_FILE,
    CONNECT_PREFIX,
    CONNECT_TIMEOUT_MS,
    CONNECT_URL,
    PROPERTIES,
    Settings,
)


def rest_of(settings: Settings) -> Rest:
    """Files are read anew for each statement: credentials that change count at once."""
    url, timeout_ms = settings.get(CONNECT_URL), settings.get(CONNECT_TIMEOUT_MS)
    try:
        for name in (CONNECT_TIMEOUT_MS, CONNECT_LOGIN):
            PROPERTIES[name].check(settings.get(name))
        secure = address(url).scheme == "https"
        return Rest(
            url,
            timeout_s=int(timeout_ms) / 1000,
            login=_login(settings),
            tls=_tls(settings) if secure else None,
        )
    except (SqlError, InvalidUrl, KafkaError) as error:
        raise SqlError(
            f"Connectors can't be asked for, as this server's settings {CONNECT_PREFIX}* are"
            f" wrong: {error}",
            remedy="They are set where the server is started.",
            code=SqlCode.SERVER_ERROR,
        ) from None


def _login(settings: Settings) -> Login | None:
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
        told = getattr(error, "strerror", None) or error
        raise SqlError(f"{CONNECT_LOGIN_FILE}={path}: {told}") from None
    if "username" not in found or "password" not in found:
        raise SqlError(f"{CONNECT_LOGIN_FILE}={path}: username and password belong in it")
    return Login(found["username"], found["password"])


def _tls(settings: Settings) -> ssl.SSLContext:
    """`ksql.connect.ssl.*`, or `ssl.*` where that is not set, as in ksqlDB."""
    plain = {name: each for name, each in settings.properties.items() if name.startswith("ssl.")}
    own = {
        name.removeprefix(CONNECT_PREFIX): value
        for name, value in settings.properties.items()
        if name.startswith(f"{CONNECT_PREFIX}ssl.")
    }
    return client_context(plain | own)
