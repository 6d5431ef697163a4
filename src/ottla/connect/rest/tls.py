"""TLS for REST, by Kafka's names: `listeners=https://:8443` and `ssl.*`.

Settings that begin with `listeners.https.` are for REST alone; if there is one of them, the plain
ones are the clients' only, as in Kafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from ottla.client import tls
from ottla.connect.errors import ConfigException
from ottla.errors import KafkaError

PREFIX: Final = "listeners.https."


def settings_of(properties: Mapping[str, str]) -> dict[str, str]:
    own = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name.startswith(PREFIX)
    }
    return own or {name: value for name, value in properties.items() if name.startswith("ssl.")}


def server_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        return tls.http_context(settings_of(properties))
    except KafkaError as error:
        raise ConfigException(f"listeners: {error}") from None


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """For requests that are passed on to another worker."""
    try:
        return tls.client_context(settings_of(properties))
    except KafkaError as error:
        raise ConfigException(str(error)) from None


def is_mutual(properties: Mapping[str, str]) -> bool:
    """Whether nobody comes in without a certificate."""
    return settings_of(properties).get("ssl.client.auth", "").strip().lower() == "required"
