"""A client's security settings, by Kafka's names: read in one place for every kind of connection.

    security.protocol   PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    sasl.mechanism      PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI
    sasl.jaas.config    one login module that we know, with its options
    ssl.*               see tls.py

librdkafka's own names for the same (sasl.username, ssl.ca.location, ...) are taken as well.
`for_librdkafka` translates all of them for librdkafka; our own connections use the `SaslLogin`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.auth.jaas import JaasEntry, parse_jaas
from ottla.auth.kerberos_login import KerberosLogin, kerberos_login
from ottla.auth.sasl_client import GSSAPI, OAUTHBEARER, SASL_CLIENT_MECHANISMS, SaslLogin, status_of
from ottla.auth.scram import HASHES
from ottla.client import oauth, tls
from ottla.client.delivery import Setting
from ottla.client.tls import text, wrong
from ottla.errors import ErrorCode, KafkaError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
EXTENSION: Final = "extension_"
_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9._/@+:=][A-Za-z0-9._/@+:=-]*")


def protocol_of(settings: Mapping[str, Setting]) -> str:
    protocol = text(settings, "security.protocol").upper() or "PLAINTEXT"
    if protocol not in PROTOCOLS:
        raise wrong(f"security.protocol is one of {', '.join(PROTOCOLS)}, not {protocol}")
    return protocol


def uses_tls(settings: Mapping[str, Setting]) -> bool:
    return protocol_of(settings).endswith("SSL")


def login_of(settings: Mapping[str, Setting]) -> SaslLogin | None:
    """None without SASL. KafkaError(INVALID_CONFIG) names what is missing."""
    if not protocol_of(settings).startswith("SASL"):
        return None
    mechanism = mechanism_of(settings)
    if mechanism not in SASL_CLIENT_MECHANISMS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"sasl.mechanism is one of {', '.join(SASL_CLIENT_MECHANISMS)}, not {mechanism}",
        )
    if mechanism == GSSAPI:
        return _with_ticket(_kerberos(settings))
    entry = _entry(settings, mechanism)
    if mechanism == OAUTHBEARER:
        extensions = tuple(
            (name.removeprefix(EXTENSION), value)
            for name, value in entry.options.items()
            if name.startswith(EXTENSION)
        )
        if any(name == "auth" for name, _ in extensions):
            raise wrong("sasl.jaas.config: extension_auth is not allowed, auth is the token itself")
        tokens = oauth.token_settings(settings, entry.options)
        who = tokens.subject or tokens.client_id or tokens.url
        source = oauth.source_of(tokens)
        return SaslLogin(mechanism, who, source=source, extensions=extensions)
    return _with_password(settings, mechanism, entry)


def mechanism_of(settings: Mapping[str, Setting]) -> str:
    mechanism = text(settings, "sasl.mechanism") or text(settings, "sasl.mechanisms")
    return mechanism.upper() or GSSAPI  # which is Kafka's default


def for_librdkafka(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """A client's security settings for librdkafka, and nothing else."""
    protocol = protocol_of(settings)
    if protocol == "PLAINTEXT":
        return {}
    config: dict[str, Any] = {"security.protocol": protocol.lower()}
    if uses_tls(settings):
        config |= tls.for_librdkafka(settings)
    if protocol.startswith("SASL"):
        config |= _sasl_for_librdkafka(settings)
    return config


def refused_login(login: SaslLogin, address: str, why: str) -> KafkaError:
    """One sentence; the broker's message only if it adds something."""
    message = f"authentication as {login.principal} by {login.mechanism} failed at {address}"
    reason = status_of(why) if why.startswith("{") else why
    more = "" if not reason or reason.startswith("Authentication failed") else f": {reason}"
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message + more)


def is_security(name: str) -> bool:
    """True for a setting that `for_librdkafka` translates."""
    return name.startswith(("sasl.", "ssl.")) or name in (
        "security.protocol",
        "security.providers",
        "enable.ssl.certificate.verification",
        "enable.sasl.oauthbearer.unsecure.jwt",
    )


def _entry(settings: Mapping[str, Setting], mechanism: str) -> JaasEntry:
    config = text(settings, "sasl.jaas.config")
    module = "SCRAM" if mechanism in HASHES else mechanism
    if not config:
        return JaasEntry(module, {})
    try:
        entry = parse_jaas(config)
    except ValueError as error:
        raise wrong(f"sasl.jaas.config: {error}") from None
    if entry.module != module:
        raise wrong(
            f"sasl.jaas.config has the login module of {entry.module}, sasl.mechanism is"
            f" {mechanism}"
        )
    return entry


def _with_password(settings: Mapping[str, Setting], mechanism: str, entry: JaasEntry) -> SaslLogin:
    user = entry.options.get("username", "") or text(settings, "sasl.username")
    # A password may begin or end with spaces.
    password = entry.options.get("password", "") or str(settings.get("sasl.password") or "")
    if not user or not password:
        raise wrong(
            f"{mechanism} needs a user and a password: sasl.jaas.config=... required"
            ' username="name" password="secret";'
        )
    is_token = mechanism in HASHES and entry.options.get("tokenauth", "").lower() == "true"
    return SaslLogin(mechanism, user, password, is_token)


def _kerberos(settings: Mapping[str, Setting]) -> KerberosLogin:
    """From the login module or librdkafka's own names; otherwise the ticket cache of kinit."""
    options = _entry(settings, GSSAPI).options
    if not text(settings, "sasl.jaas.config"):
        keytab = text(settings, "sasl.kerberos.keytab")
        principal = text(settings, "sasl.kerberos.principal")
        options = {"useTicketCache": "true", "principal": principal}
        if keytab:
            options = {"useKeyTab": "true", "keyTab": keytab, "principal": principal}
    try:
        return kerberos_login(options, text(settings, "sasl.kerberos.service.name"))
    except ValueError as error:
        raise wrong(f"GSSAPI: {error}") from None


def _with_ticket(login: KerberosLogin) -> SaslLogin:
    from ottla.net.kerberos_tickets import KerberosTickets  # few clients need it

    try:
        tickets = KerberosTickets(login)
    except ImportError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, str(error)) from None
    return SaslLogin(GSSAPI, login.principal, tickets=tickets)


def _kerberos_for_librdkafka(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """librdkafka runs kinit in a shell, with the principal and the keytab in its command."""
    login = _kerberos(settings)
    config: dict[str, Any] = {"sasl.mechanism": GSSAPI, "sasl.kerberos.service.name": login.service}
    if not login.keytab:  # kinit runs elsewhere
        return {**config, "sasl.kerberos.kinit.cmd": ":"}
    if not all(_PLAIN_WORD.fullmatch(word) for word in (login.keytab, login.principal)):
        raise wrong("a shell would read more than a name in keyTab or principal")
    keytab, principal = "sasl.kerberos.keytab", "sasl.kerberos.principal"
    return {**config, keytab: login.keytab, principal: login.principal}


def _sasl_for_librdkafka(settings: Mapping[str, Setting]) -> dict[str, Any]:
    if mechanism_of(settings) == GSSAPI:
        return _kerberos_for_librdkafka(settings)
    login = login_of(settings)
    assert login is not None
    properties: dict[str, Any] = {"sasl.mechanism": login.mechanism}
    if login.is_token:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "librdkafka does not log in with delegation tokens (tokenauth=true): producers and"
            " consumers need a user; admin commands, Spark, SQL and Streams take tokens",
        )
    if login.source is None:
        return {**properties, "sasl.username": login.user, "sasl.password": login.password}
    source, extensions = login.source, dict(login.extensions)

    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        found = source.token()
        return found.value, found.expires_at, found.principal or login.principal, extensions

    return {**properties, "oauth_cb": token}
