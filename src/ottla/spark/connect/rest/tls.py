"""TLS for REST, by Kafka's names: `listeners=https://:8443` and `ssl.*`, of PEM files.

Settings that begin with `listeners.https.` are for REST alone; if there is one of them, the plain
ones are the clients' only, as in Kafka.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.spark.connect.errors import ConfigException

PREFIX: Final = "listeners.https."
PEM: Final = "PEM"
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def settings_of(properties: Mapping[str, str]) -> dict[str, str]:
    own = {
        name.removeprefix(PREFIX): value
        for name, value in properties.items()
        if name.startswith(PREFIX)
    }
    return own or {name: value for name, value in properties.items() if name.startswith("ssl.")}


def server_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    settings = settings_of(properties)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if not _load_own(context, settings):
        raise ConfigException(
            "listeners: https needs a certificate and its key: ssl.keystore.location (a PEM file"
            " with both), or ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    context.set_alpn_protocols(["h2", "http/1.1"])
    wish = settings.get("ssl.client.auth", "none").strip().lower()
    if wish not in CLIENT_AUTH:
        told = f"String must be one of: {', '.join(CLIENT_AUTH)}"
        raise ConfigException.of("ssl.client.auth", wish, told)
    _load_trusted(context, settings)
    context.verify_mode = CLIENT_AUTH[wish]
    return context


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """For requests that are passed on to another worker."""
    settings = settings_of(properties)
    context = ssl.create_default_context()
    _load_trusted(context, settings)
    _load_own(context, settings)
    if not settings.get("ssl.endpoint.identification.algorithm", "https").strip():
        context.check_hostname = False
    return context


def _load_own(context: ssl.SSLContext, settings: Mapping[str, str]) -> bool:
    """A certificate with its key, from one file or as texts."""
    path = settings.get("ssl.keystore.location", "")
    password = settings.get("ssl.key.password") or settings.get("ssl.keystore.password") or None
    chain = settings.get("ssl.keystore.certificate.chain", "")
    key = settings.get("ssl.keystore.key", "")
    if not path and not (chain and key):
        return False
    if path:
        _check_type(settings, "ssl.keystore.type", path)
        _loaded(
            "ssl.keystore.location", path, lambda: context.load_cert_chain(path, None, password)
        )
        return True
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner can read it
        file.write(f"{chain}\n{key}\n")
        file.flush()
        _loaded(
            "ssl.keystore.key",
            "[hidden]",
            lambda: context.load_cert_chain(file.name, None, password),
        )
    return True


def _load_trusted(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    path = settings.get("ssl.truststore.location", "")
    texts = settings.get("ssl.truststore.certificates", "")
    if path:
        _check_type(settings, "ssl.truststore.type", path)
        _loaded("ssl.truststore.location", path, lambda: context.load_verify_locations(path))
    elif texts:
        name = "ssl.truststore.certificates"
        _loaded(name, "[hidden]", lambda: context.load_verify_locations(cadata=texts))


def _check_type(settings: Mapping[str, str], name: str, path: str) -> None:
    kind = settings.get(name, PEM if Path(path).suffix.lower() == ".pem" else "JKS").upper()
    if kind != PEM:
        told = "only PEM files are read (`openssl pkcs12 -nodes` makes one of a keystore)"
        raise ConfigException.of(name, kind, told)


def _loaded(name: str, value: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigException.of(name, value, f"it can't be used: {error}") from None
