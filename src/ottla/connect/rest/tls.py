"""TLS for the REST server, by Kafka's names: `listeners=https://:8443` and `ssl.*`.

As in Kafka, if there is any setting with the prefix `listeners.https.`, REST uses only those, and
the plain `ssl.*` settings are for clients.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from ottla.client import tls
from ottla.connect.errors import ConfigException
from ottla.errors import KafkaError

PREFIX: Final = "listeners.https."


def rest_tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    own = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name.startswith(PREFIX)
    }
    return own or {name: value for name, value in properties.items() if name.startswith("ssl.")}


def server_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        return tls.http_context(rest_tls_settings(properties))
    except KafkaError as error:
        raise ConfigException(f"listeners: {error}") from None


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """For requests that are forwarded to another worker."""
    try:
        return tls.client_context(rest_tls_settings(properties))
    except KafkaError as error:
        raise ConfigException(str(error)) from None


def is_mutual(properties: Mapping[str, str]) -> bool:
    """True if clients must present a certificate."""
    return rest_tls_settings(properties).get("ssl.client.auth", "").strip().lower() == "required"
