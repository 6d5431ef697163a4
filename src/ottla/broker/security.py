"""What protects this broker's listeners: certificates, mechanisms, and its own credentials."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.auth.mechanisms import build_mechanisms, jaas_entry
from ottla.auth.principal_mapping import PrincipalMapping
from ottla.auth.sasl import SaslMechanism, SaslServer
from ottla.auth.sasl_client import GSSAPI, OAUTHBEARER, SaslLogin
from ottla.broker.authentication import SaslGate
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.kerberos import gssapi_mechanism, ticket_login
from ottla.broker.oauth import bearer_login, bearer_mechanism
from ottla.config import (
    ConfigError,
    Listener,
    ListenerSettings,
    ServerConfig,
    is_loopback,
    tls_settings,
)
from ottla.net.line_security import LineSecurity
from ottla.net.listener_tls import ListenerTls
from ottla.net.oauth_providers import OAuthProviders
from ottla.net.tls import ktls_available

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import Session

log = logging.getLogger("ottla.broker")


class Security:
    """Each listener's; `tls` and `gate` are the server's, `line_security` is for our own lines."""

    def __init__(self, broker: Broker) -> None:
        """ConfigError says what a listener lacks."""
        self._broker = broker
        self._oauth = OAuthProviders()
        self._tls: dict[str, ListenerTls] = {}
        self._mechanisms: dict[str, dict[str, SaslMechanism]] = {}
        self._mappings: dict[str, PrincipalMapping] = {}
        self._line_security: LineSecurity | None = None
        self.counts = AuthenticationCounts()
        config = broker.config
        for listener in config.listeners:
            if listener.security_protocol.endswith("SSL"):
                self._tls[listener.name] = ListenerTls(
                    _tls_settings(config, listener),
                    inter_broker=listener.name == config.inter_broker_listener_name,
                )
        self._take(config)
        self._say()
        warn_of_open_listeners(config)

    def tls(self, listener: str) -> ListenerTls | None:
        return self._tls.get(listener)

    def gate(self, session: Session, certificate: bytes | None) -> SaslGate | None:
        """What the client still has to prove; KafkaError if its certificate is nobody's."""
        listener = session.listener
        mechanisms = self._mechanisms.get(listener)
        if mechanisms is None:
            if listener in self._tls:
                session.principal = self._mappings[listener].principal(certificate)
                self.counts.succeeded(listener, again=False, knows_sessions=True)
            return None
        broker = self._broker
        size = ListenerSettings(broker.config, listener).get("sasl.server.max.receive.size")
        assert isinstance(size, int)
        return SaslGate(
            session,
            SaslServer(mechanisms),
            frame_bytes_max=size,
            delay_ms=broker.config.connection_failed_authentication_delay_ms,
            clock=broker.clock,
            versions=broker.dispatch,
            counts=self.counts,
        )

    def line_security(self) -> LineSecurity | None:
        """How we speak to other brokers; None in the clear."""
        return self._line_security

    def check(self, config: ServerConfig) -> None:
        """ConfigError if the listeners could not take this configuration while they run."""
        for listener in config.listeners:
            tls = self._tls.get(listener.name)
            if tls is not None and tls.settings != (wanted := _tls_settings(config, listener)):
                tls.check(wanted)
        self._read(config)

    def reconfigure(self, config: ServerConfig) -> None:
        """Take what was changed while the broker runs; what can't be used is said and left."""
        try:
            for listener in config.listeners:
                if (tls := self._tls.get(listener.name)) is not None:
                    tls.reconfigure(_tls_settings(config, listener))
            self._take(config)
        except ConfigError as error:
            log.error("The listeners keep their security settings: %s", error)

    def refresh(self) -> None:
        """Certificates are renewed in place, and providers change their keys."""
        self._oauth.refresh(self._broker.clock.now_ms())
        for tls in self._tls.values():
            tls.refresh()

    def _take(self, config: ServerConfig) -> None:
        mechanisms, self._mappings, login = self._read(config)
        for name, found in mechanisms.items():
            # Live connections hold the listener's map: with the old one a password that was
            # taken away would still pass re-authentication.
            kept = self._mechanisms.setdefault(name, {})
            kept.clear()
            kept.update(found)
        tls = self._tls.get(config.inter_broker_listener_name)
        self._line_security = None
        if tls is not None or login is not None:
            self._line_security = LineSecurity(tls, login)

    def _read(
        self, config: ServerConfig
    ) -> tuple[
        dict[str, Mapping[str, SaslMechanism]], dict[str, PrincipalMapping], SaslLogin | None
    ]:
        mechanisms: dict[str, Mapping[str, SaslMechanism]] = {}
        mappings: dict[str, PrincipalMapping] = {}
        login = None
        for listener in config.listeners:
            settings = ListenerSettings(config, listener.name)
            if listener.security_protocol.startswith("SASL_"):
                mechanisms[listener.name] = build_mechanisms(
                    settings,
                    self._broker.credentials,
                    secret=self._broker.credentials.secret,
                    builders={
                        OAUTHBEARER: partial(bearer_mechanism, self._oauth),
                        GSSAPI: gssapi_mechanism,
                    },
                )
                if listener.name == config.inter_broker_listener_name:
                    login = _login(settings)
            elif listener.security_protocol == "SSL":
                mappings[listener.name] = _mapping(settings)
        return mechanisms, mappings, login

    def _say(self) -> None:
        """Which way bytes take over TLS: an operator who counts on zero copy wants to know."""
        if not self._tls:
            return
        wanted, there = self._broker.config.ottla_ssl_ktls_enable, ktls_available()
        if wanted and there:
            log.info("TLS: the kernel encrypts what is sent (kTLS), fetches are sent by sendfile")
        elif there:
            log.info("TLS: records are copied and encrypted here; ottla.ssl.ktls.enable is false")
        else:
            log.info("TLS: records are copied and encrypted here; the kernel has no module tls")


def warn_of_open_listeners(config: ServerConfig) -> None:
    """Everybody is User:ANONYMOUS where nobody has to prove anything; one machine is its user's."""
    rights = "has the rights of User:ANONYMOUS" if config.authorizer_class_name else "may do all"
    for listener in config.listeners:
        if is_loopback(listener.host) or listener.security_protocol.startswith("SASL_"):
            continue
        if has_certificates(config, listener):
            continue
        log.warning(
            "LISTENER %s HAS NO AUTHENTICATION: everybody who reaches it %s. Use SASL_SSL, or SSL"
            " with ssl.client.auth=required, or listen on 127.0.0.1.",
            listener,
            rights,
        )


def has_certificates(config: ServerConfig, listener: Listener) -> bool:
    """True if nobody comes in without a certificate of their own."""
    is_tls = listener.security_protocol == "SSL"
    return is_tls and _tls_settings(config, listener).client_auth == "required"


def _tls_settings(config: ServerConfig, listener: Listener):  # type: ignore[no-untyped-def]
    return tls_settings(ListenerSettings(config, listener.name), listener.security_protocol)


def _login(settings: ListenerSettings) -> SaslLogin:
    """Who we are to other brokers: a username and password, a token or a ticket."""
    mechanism = str(settings.get("sasl.mechanism.inter.broker.protocol"))
    if mechanism == OAUTHBEARER:
        return bearer_login(settings)
    if mechanism == GSSAPI:
        return ticket_login(settings)
    options = jaas_entry(settings, mechanism).options
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        reason = "username and password are needed for what this broker asks of others"
        full = f"listener.name.{settings.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError([(full, None, reason)])
    return SaslLogin(mechanism, name, password)


def _mapping(settings: ListenerSettings) -> PrincipalMapping:
    rules = str(settings.get("ssl.principal.mapping.rules"))
    try:
        return PrincipalMapping(rules)
    except ValueError as error:
        raise ConfigError([("ssl.principal.mapping.rules", rules, str(error))]) from None
