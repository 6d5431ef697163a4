"""A client's TLS by Kafka's names, and by librdkafka's where these differ.

PEM files, PEM text (KIP-651) and PKCS12 are read by the same code as a broker's stores
(net/keystores.py). A KafkaError(INVALID_CONFIG) names the property, and the machine on which a file
was missing, because Spark chooses it; it never repeats a password or a key.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.delivery import Setting
from ottla.config import ConfigError, StoreSettings, TlsSettings
from ottla.errors import ErrorCode, KafkaError
from ottla.net.tls import CLIENT_AUTH, VERSIONS, TlsIdentity

SEQUENCE: Final = b"\x30"  # the first byte of every PKCS12 file
H2: Final = ("h2", "http/1.1")


def client_context(settings: Mapping[str, Setting]) -> ssl.SSLContext:
    """The TLS context of a client's connections."""
    try:
        context = _identity(settings).client_context()
    except ConfigError as error:
        raise _named(error) from None
    # Java and librdkafka trust every certificate of a truststore, whoever signed it, and accept CAs
    # without the extensions that Python demands since 3.13.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if text(settings, "enable.ssl.certificate.verification").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def http_context(settings: Mapping[str, Setting]) -> ssl.SSLContext:
    """The TLS context of a REST server."""
    if not tls_settings(settings).keystore.given:
        raise wrong(
            "https needs a certificate and its key: ssl.keystore.location (a PEM file with both),"
            " or ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    try:
        context = _identity(settings).server_context()
    except ConfigError as error:
        raise _named(error) from None
    context.set_alpn_protocols(list(H2))
    return context


def for_librdkafka(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The same stores for librdkafka. It reads PKCS12 keystores itself, but otherwise only PEM; its
    own names pass unchanged."""
    config: dict[str, Any] = {
        name: settings[name]
        for name in ("ssl.cipher.suites", "enable.ssl.certificate.verification")
        if settings.get(name)
    }
    config["ssl.endpoint.identification.algorithm"] = (
        "https" if tls_settings(settings).check_hostname else "none"
    )
    try:
        identity = _identity(settings, keystore=not _is_pkcs12(settings))
    except ConfigError as error:
        raise _named(error) from None
    if identity.trusted is not None:
        config["ssl.ca.pem"] = identity.trusted
    if identity.key_pair is not None:
        config["ssl.certificate.pem"] = identity.key_pair.chain
        config["ssl.key.pem"] = identity.key_pair.key
        if identity.key_pair.password:
            config["ssl.key.password"] = identity.key_pair.password
    elif _is_pkcs12(settings):
        for name in ("ssl.keystore.location", "ssl.keystore.password"):
            config[name] = text(settings, name)
    return config


def tls_settings(settings: Mapping[str, Setting]) -> TlsSettings:
    protocols = tuple(_words(settings, "ssl.enabled.protocols")) or tuple(VERSIONS)
    for name in protocols:
        if name not in VERSIONS:
            raise wrong(f"ssl.enabled.protocols: one of {', '.join(VERSIONS)}, not {name}")
    client_auth = text(settings, "ssl.client.auth").lower() or "none"
    if client_auth not in CLIENT_AUTH:
        raise wrong(f"ssl.client.auth is one of {', '.join(CLIENT_AUTH)}, not {client_auth}")
    algorithm = str(settings.get("ssl.endpoint.identification.algorithm", "https"))
    return TlsSettings(
        "client",
        _keystore(settings),
        _truststore(settings),
        client_auth,
        protocols=protocols,
        ciphers=tuple(_words(settings, "ssl.cipher.suites")),
        check_hostname=algorithm.strip().lower() not in ("", "none"),
        allow_dn_changes=True,
        allow_san_changes=True,
        ktls=False,
    )


def text(settings: Mapping[str, Setting], name: str) -> str:
    value = settings.get(name)
    return "" if value is None else str(value).strip()


def wrong(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, why)


def _identity(settings: Mapping[str, Setting], *, keystore: bool = True) -> TlsIdentity:
    found = tls_settings(settings)
    if not keystore:
        from dataclasses import replace

        found = replace(found, keystore=StoreSettings("keystore", None, None, None, None))
    return TlsIdentity(found)


def _keystore(settings: Mapping[str, Setting]) -> StoreSettings:
    certificate, key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if text(settings, "ssl.certificate.location") or text(settings, "ssl.certificate.pem"):
        chain = _content(settings, "ssl.certificate")
        own = {certificate: chain, key: _content(settings, "ssl.key") or chain}
    else:
        own = {name: text(settings, name) for name in (certificate, key)}
    return StoreSettings(
        "keystore",
        text(settings, "ssl.keystore.type") or None,
        text(settings, "ssl.keystore.location") or None,
        text(settings, "ssl.keystore.password") or None,
        own[certificate] or None,
        own[key] or None,
        text(settings, "ssl.key.password") or None,
    )


def _truststore(settings: Mapping[str, Setting]) -> StoreSettings:
    inline = text(settings, "ssl.truststore.certificates") or text(settings, "ssl.ca.pem")
    location = text(settings, "ssl.truststore.location") or text(settings, "ssl.ca.location")
    return StoreSettings(
        "truststore",
        text(settings, "ssl.truststore.type") or None,
        location or None,
        text(settings, "ssl.truststore.password") or None,
        inline or None,
    )


def _content(settings: Mapping[str, Setting], name: str) -> str:
    """librdkafka's ssl.key.location, or ssl.key.pem."""
    path = text(settings, f"{name}.location")
    if not path:
        return text(settings, f"{name}.pem")
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _not_here(f"{name}.location", path, error.strerror or str(error)) from None


def _is_pkcs12(settings: Mapping[str, Setting]) -> bool:
    path = text(settings, "ssl.keystore.location")
    kind = text(settings, "ssl.keystore.type").upper()
    if not path or kind == "PEM":
        return False
    try:
        with open(path, "rb") as file:
            return kind == "PKCS12" or file.read(1) == SEQUENCE
    except OSError as error:
        raise _not_here("ssl.keystore.location", path, error.strerror or str(error)) from None


def _words(settings: Mapping[str, Setting], name: str) -> list[str]:
    return [word.strip() for word in text(settings, name).split(",") if word.strip()]


def _named(error: ConfigError) -> KafkaError:
    name, value, reason = error.problems[0]
    if value is not None and name.endswith("location"):
        return _not_here(name, value, reason)
    return wrong(f"{name}: {reason}" if value is None else f"{name} {value}: {reason}")


def _not_here(name: str, path: str, reason: str) -> KafkaError:
    return wrong(f"{name} {path} can't be used on {socket.gethostname()}: {reason}")
