"""Database URLs: JDBC's, so that existing configs work, and plain ones.

jdbc:postgresql://host:5432/shop?user=reader&sslmode=require     postgresql://host/shop
jdbc:sqlite:/var/lib/shop.db                                     sqlite:///var/lib/shop.db
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.connect.connectors.jdbc.database import Database, DatabaseError
from ottla.connect.errors import ConfigException, RetriableException
from ottla.extras import install_command

POSTGRES: Final = ("postgresql", "postgres")
POSTGRES_PORT: Final = 5432
CONNECTION: Final = "connection."
# The settings `connection.*` that are the connector's, not the driver's.
OURS: Final = frozenset({"url", "user", "password", "attempts", "backoff.ms"})
# JDBC parameter -> libpq parameter.
LIBPQ: Final = {
    "loginTimeout": "connect_timeout",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "tcpKeepAlive": "keepalives",
}


@dataclass(frozen=True, slots=True)
class Address:
    """`kind` is postgresql or sqlite; `path` is SQLite's file."""

    kind: str
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def address_of(url: str) -> Address:
    plain = url.removeprefix("jdbc:")
    kind = plain.split(":", 1)[0]
    if kind in POSTGRES:
        return Address("postgresql", parameters=_postgres(plain, url))
    if kind == "sqlite":
        path = plain[len("sqlite:") :]
        if path.startswith("///"):
            path = path[2:]
        if not path:
            raise ConfigException.of("connection.url", url, "the path of SQLite's file is missing")
        return Address("sqlite", path)
    raise ConfigException.of(
        "connection.url",
        url,
        "databases are PostgreSQL (jdbc:postgresql://host:port/database) and SQLite"
        " (jdbc:sqlite:path)",
    )


def _postgres(plain: str, url: str) -> dict[str, str]:
    parts = urlsplit(plain if "://" in plain else plain.replace(":", ":///", 1))
    database = unquote(parts.path.lstrip("/"))
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    user_info, _, addresses = parts.netloc.rpartition("@")
    hosts, ports = [], []
    for address in addresses.split(",") if addresses else ["localhost"]:
        host, colon, port = address.rpartition(":")
        if colon and not port.endswith("]"):
            hosts.append(host.strip("[]"))
            ports.append(port)
        else:
            hosts.append(address.strip("[]"))
            ports.append(str(POSTGRES_PORT))
    if not all(port.isdigit() for port in ports):
        raise ConfigException.of("connection.url", url, "the port is not a number")
    found = {"host": ",".join(hosts), "port": ",".join(ports)}
    if database:
        found["dbname"] = database
    if user_info:
        user, colon, password = user_info.partition(":")
        found["user"] = unquote(user)
        if colon:
            found["password"] = unquote(password)
    return found | driver_parameters(parameters)


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """JDBC's parameters as libpq's. libpq rejects unknown ones by name."""
    found: dict[str, str] = {}
    for name, value in parameters.items():
        if name == "currentSchema":
            found["options"] = f"-c search_path={value}"
        elif name == "ssl":
            found.setdefault("sslmode", "require" if value in ("", "true") else "prefer")
        elif name == "tcpKeepAlive":
            found["keepalives"] = "1" if value == "true" else "0"
        else:
            found[LIBPQ.get(name, name)] = value
    return found


def check_address(config: Mapping[str, str], errors: list[str]) -> None:
    """Adds an error if the URL is invalid. Does not connect."""
    if errors:
        return
    try:
        address_of(config.get("connection.url") or "")
    except ConfigException as error:
        errors.append(str(error))


def open_database(config: Mapping[str, str]) -> Database:
    """One attempt to connect, with the settings `connection.*`."""
    address = address_of(config.get("connection.url") or "")
    quotes = config.get("quote.sql.identifiers", "").upper() != "NEVER"
    if address.kind == "sqlite":
        from ottla.connect.connectors.jdbc.sqlite import Sqlite

        return Sqlite(address.path, quotes=quotes)
    parameters = dict(address.parameters)
    for name, setting in (("user", "connection.user"), ("password", "connection.password")):
        value = config.get(setting)
        if value:
            parameters[name] = str(value)
    extra = {
        name.removeprefix(CONNECTION): value
        for name, value in config.items()
        if name.startswith(CONNECTION) and name.removeprefix(CONNECTION) not in OURS
    }
    try:
        from ottla.connect.connectors.jdbc.postgres import Postgres
    except ImportError as error:
        raise ConfigException(
            f"PostgreSQL needs psycopg: {install_command('postgresql')}"
            f" (it can't be imported: {error})"
        ) from error
    return Postgres(parameters | driver_parameters(extra), quotes=quotes)


def open_patiently(config: Mapping[str, str], *, attempts: int, backoff_ms: int) -> Database:
    """Up to `connection.attempts` attempts, with `connection.backoff.ms` between them."""
    for attempt in range(1, attempts + 1):
        try:
            return open_database(config)
        except DatabaseError as error:
            if attempt == attempts:
                raise RetriableException(
                    f"Unable to connect to the database after {attempts} attempts: {error}"
                ) from error
        time.sleep(backoff_ms / 1000)
    raise AssertionError("connection.attempts is at least 1")
