"""The security of this broker's listeners: certificates, SASL mechanisms, its own credentials."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.auth.mechanisms import build_mechanisms, jaas_entry
from ottla.auth.sasl import SaslMechanism, SaslServer
from ottla.auth.sasl_client import GSSAPI, OAUTHBEARER, SaslLogin
from ottla.auth.ssl_principal_mapper import SslPrincipalMapper
from ottla.broker.authentication import SaslAuthentication
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.kerberos import gssapi_mechanism, kerberos_sasl_login
from ottla.broker.oauth import oauth_bearer_login, oauth_bearer_mechanism
from ottla.config import (
    ConfigError,
    Listener,
    ListenerSettings,
    ServerConfig,
    is_loopback,
    tls_settings,
)
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.listener_tls import ListenerTls
from ottla.net.provider_keys import ProviderKeys
from ottla.net.tls import ktls_available

if TYPE_CHECKING:
    from ottla.broker.client_session import ClientSession
    from ottla.broker.credentials import Credentials
    from ottla.clock import SteadyClock
    from ottla.wire.connection import Request

log = logging.getLogger("ottla.broker")


class Security:
    """Each listener's; `tls` and `authenticator` are for clients, `line_security` for connections
    to other brokers."""

    def __init__(
        self,
        config: Callable[[], ServerConfig],
        credentials: Credentials,
        *,
        clock: SteadyClock,
        versions: Callable[[ClientSession, Request], Any],
    ) -> None:
        """ConfigError says what a listener lacks. `versions` serves ApiVersions until SASL ends."""
        self._config = config
        self._credentials = credentials
        self._clock = clock
        self._versions = versions
        self._oauth = ProviderKeys()
        self._tls: dict[str, ListenerTls] = {}
        self._mechanisms: dict[str, dict[str, SaslMechanism]] = {}
        self._mappings: dict[str, SslPrincipalMapper] = {}
        self._line_security: ConnectionSecurity | None = None
        self.counts = AuthenticationCounts()
        current = config()
        for listener in current.listeners:
            if listener.security_protocol.endswith("SSL"):
                self._tls[listener.name] = ListenerTls(
                    _tls_settings(current, listener),
                    inter_broker=listener.name == current.inter_broker_listener_name,
                )
        self._take(current)
        self._say()
        warn_of_open_listeners(current)

    def tls(self, listener: str) -> ListenerTls | None:
        return self._tls.get(listener)

    def authenticator(
        self, session: ClientSession, certificate: bytes | None
    ) -> SaslAuthentication | None:
        """The SASL dialogue that comes first; KafkaError if a certificate maps to no principal."""
        listener = session.listener
        mechanisms = self._mechanisms.get(listener)
        if mechanisms is None:
            if listener in self._tls:
                session.principal = self._mappings[listener].principal(certificate)
                self.counts.succeeded(listener, again=False, knows_sessions=True)
            return None
        config = self._config()
        size = ListenerSettings(config, listener).get("sasl.server.max.receive.size")
        assert isinstance(size, int)
        return SaslAuthentication(
            session,
            SaslServer(mechanisms),
            frame_bytes_max=size,
            delay_ms=config.connection_failed_authentication_delay_ms,
            clock=self._clock,
            versions=self._versions,
            counts=self.counts,
        )

    def line_security(self) -> ConnectionSecurity | None:
        """TLS and SASL for connections to other brokers; None for PLAINTEXT."""
        return self._line_security

    def check(self, config: ServerConfig) -> None:
        """ConfigError if the listeners cannot take this configuration while they run."""
        for listener in config.listeners:
            tls = self._tls.get(listener.name)
            if tls is not None and tls.settings != (wanted := _tls_settings(config, listener)):
                tls.check(wanted)
        self._read(config)

    def reconfigure(self, config: ServerConfig) -> None:
        """Take over a changed configuration; if it can't be used, log that and keep the old one."""
        try:
            for listener in config.listeners:
                if (tls := self._tls.get(listener.name)) is not None:
                    tls.reconfigure(_tls_settings(config, listener))
            self._take(config)
        except ConfigError as error:
            log.error("Keeping the old security settings of the listeners: %s", error)

    def refresh(self) -> None:
        """Look for renewed certificate files and provider keys."""
        self._oauth.refresh(self._clock.now_ms())
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
            self._line_security = ConnectionSecurity(tls, login)

    def _read(
        self, config: ServerConfig
    ) -> tuple[
        dict[str, Mapping[str, SaslMechanism]], dict[str, SslPrincipalMapper], SaslLogin | None
    ]:
        mechanisms: dict[str, Mapping[str, SaslMechanism]] = {}
        mappings: dict[str, SslPrincipalMapper] = {}
        login = None
        for listener in config.listeners:
            settings = ListenerSettings(config, listener.name)
            if listener.security_protocol.startswith("SASL_"):
                mechanisms[listener.name] = build_mechanisms(
                    settings,
                    self._credentials,
                    secret=self._credentials.secret,
                    builders={
                        OAUTHBEARER: partial(oauth_bearer_mechanism, self._oauth),
                        GSSAPI: gssapi_mechanism,
                    },
                )
                if listener.name == config.inter_broker_listener_name:
                    login = _login(settings)
            elif listener.security_protocol == "SSL":
                mappings[listener.name] = _mapping(settings)
        return mechanisms, mappings, login

    def _say(self) -> None:
        """Log how data goes out over TLS, for operators who count on zero copy."""
        if not self._tls:
            return
        wanted, there = self._config().ottla_ssl_ktls_enable, ktls_available()
        if wanted and there:
            log.info("TLS: the kernel encrypts what is sent (kTLS), fetches are sent by sendfile")
        elif there:
            log.info("TLS: records are copied and encrypted here; ottla.ssl.ktls.enable is false")
        else:
            log.info("TLS: records are copied and encrypted here; the kernel has no module tls")


def warn_of_open_listeners(config: ServerConfig) -> None:
    """Warn of listeners without authentication, unless only this machine can reach them."""
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
    """True if every client needs a certificate."""
    is_tls = listener.security_protocol == "SSL"
    return is_tls and _tls_settings(config, listener).client_auth == "required"


def _tls_settings(config: ServerConfig, listener: Listener):  # type: ignore[no-untyped-def]
    return tls_settings(ListenerSettings(config, listener.name), listener.security_protocol)


def _login(settings: ListenerSettings) -> SaslLogin:
    """This broker's credentials at other brokers: a password, a token or a ticket."""
    mechanism = str(settings.get("sasl.mechanism.inter.broker.protocol"))
    if mechanism == OAUTHBEARER:
        return oauth_bearer_login(settings)
    if mechanism == GSSAPI:
        return kerberos_sasl_login(settings)
    options = jaas_entry(settings, mechanism).options
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        reason = "username and password are needed for what this broker asks of others"
        full = f"listener.name.{settings.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError([(full, None, reason)])
    return SaslLogin(mechanism, name, password)


def _mapping(settings: ListenerSettings) -> SslPrincipalMapper:
    rules = str(settings.get("ssl.principal.mapping.rules"))
    try:
        return SslPrincipalMapper(rules)
    except ValueError as error:
        raise ConfigError([("ssl.principal.mapping.rules", rules, str(error))]) from None
