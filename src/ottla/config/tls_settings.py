"""A listener's TLS properties as values that can be compared for changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.config.listener_settings import ListenerSettings


@dataclass(slots=True, frozen=True)
class StoreSettings:
    """A keystore or a truststore: a file, or PEM text (KIP-651)."""

    kind: str  # keystore or truststore, as in the names of its properties
    type: str | None  # None if unset: the file's contents decide
    location: str | None
    password: str | None = field(repr=False)
    certificates: str | None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        return bool(self.location or self.certificates)


@dataclass(slots=True, frozen=True)
class TlsSettings:
    """The settings of a listener's handshakes, as a server and as a client."""

    listener: str
    keystore: StoreSettings
    truststore: StoreSettings
    client_auth: str
    protocols: tuple[str, ...]
    ciphers: tuple[str, ...]
    check_hostname: bool
    allow_dn_changes: bool
    allow_san_changes: bool
    ktls: bool


def tls_settings(settings: ListenerSettings, security_protocol: str) -> TlsSettings:
    """ConfigError names an invalid property."""
    return TlsSettings(
        settings.listener,
        _store(settings, "keystore"),
        _store(settings, "truststore"),
        _client_auth(settings, security_protocol),
        protocols=_words(settings, "ssl.enabled.protocols"),
        ciphers=_words(settings, "ssl.cipher.suites"),
        check_hostname=settings.get("ssl.endpoint.identification.algorithm") == "https",
        allow_dn_changes=bool(settings.get("ssl.allow.dn.changes")),
        allow_san_changes=bool(settings.get("ssl.allow.san.changes")),
        ktls=bool(settings.get("ottla.ssl.ktls.enable")),
    )


def _client_auth(settings: ListenerSettings, security_protocol: str) -> str:
    """With SASL_SSL clients authenticate by SASL, so only the listener's own setting applies
    (KIP-684)."""
    own = settings.own("ssl.client.auth")
    if security_protocol == "SASL_SSL":
        return str(own or "none")
    return str(settings.get("ssl.client.auth"))


def _store(settings: ListenerSettings, kind: str) -> StoreSettings:
    is_keystore = kind == "keystore"
    certificates = (
        "ssl.keystore.certificate.chain" if is_keystore else "ssl.truststore.certificates"
    )
    return StoreSettings(
        kind,
        _text(settings, f"ssl.{kind}.type") if settings.is_set(f"ssl.{kind}.type") else None,
        _text(settings, f"ssl.{kind}.location"),
        _text(settings, f"ssl.{kind}.password"),
        _text(settings, certificates),
        _text(settings, "ssl.keystore.key") if is_keystore else None,
        _text(settings, "ssl.key.password") if is_keystore else None,
    )


def _text(settings: ListenerSettings, name: str) -> str | None:
    value = settings.get(name)
    return str(value) if value else None


def _words(settings: ListenerSettings, name: str) -> tuple[str, ...]:
    value = settings.get(name)
    assert isinstance(value, tuple)
    return value
