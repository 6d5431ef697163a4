"""One listener's certificates, which can be replaced while the broker runs and connections live on.

A new certificate applies to new connections (KIP-226). It comes by a change of the configuration or
of the files. Either way it is validated first, and the old one stays if it is refused:

- a keystore or truststore can't be added to or removed from an existing listener;
- the subject must stay the same, and no alternative name may be lost, unless the configuration
  allows it (KIP-978): deploying another service's certificate is a common accident;
- between brokers the old and the new one must trust each other, because brokers replace theirs one
  after the other.
"""

from __future__ import annotations

import logging
import os
import ssl

from ottla.config import ConfigError, TlsSettings
from ottla.net.tls import TlsIdentity, try_handshake

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Tells one version of the files from another: modification time, size and inode of each."""

log = logging.getLogger("ottla.net")


class ListenerTls:
    """`context` is for accepted connections, `client_context` for those to other brokers."""

    def __init__(self, settings: TlsSettings, *, inter_broker: bool = False) -> None:
        """ConfigError says why these settings can't serve."""
        self._inter_broker = inter_broker
        self._stamp = _stamp(settings)
        self._take(TlsIdentity(settings))

    @property
    def settings(self) -> TlsSettings:
        return self._identity.settings

    def check(self, settings: TlsSettings) -> TlsIdentity:
        """The identity by these settings; ConfigError if it can't replace the present one."""
        identity = TlsIdentity(settings)
        self._check_stores(identity)
        self._check_names(identity)
        server, client = identity.server_context(), identity.client_context(check_hostname=False)
        if self._inter_broker:
            old = self._identity
            try:
                try_handshake(server, old.client_context(check_hostname=False), "broker")
                try_handshake(old.server_context(), client, "broker")
            except ssl.SSLError as error:
                reason = f"the old and the new certificate do not trust each other: {error}"
                raise _refused(settings, "keystore", reason) from None
        return identity

    def reconfigure(self, settings: TlsSettings) -> None:
        """Use these settings for new connections, also if only the files have changed."""
        stamp = _stamp(settings)
        if settings == self.settings and stamp == self._stamp:
            return
        self._take(self.check(settings))
        self._stamp = stamp
        log.info("Listener %s uses new TLS certificates or settings", settings.listener)

    def refresh(self) -> None:
        """Reload the files if they have changed: tools that renew certificates replace them."""
        stamp = _stamp(self.settings)
        if stamp == self._stamp:
            return
        try:
            self.reconfigure(self.settings)
        except (ConfigError, OSError, ValueError) as error:
            self._stamp = stamp  # logged once; the next change is the next try
            log.error(
                "Listener %s keeps its certificates because the changed files can't be used: %s",
                self.settings.listener,
                error,
            )

    def _take(self, identity: TlsIdentity) -> None:
        server, client = identity.server_context(), identity.client_context()
        self._identity, self.context, self.client_context = identity, server, client

    def _check_stores(self, identity: TlsIdentity) -> None:
        old = self._identity
        for kind, before, after in (
            ("keystore", old.key_pair, identity.key_pair),
            ("truststore", old.trusted, identity.trusted),
        ):
            if (before is None) != (after is None):
                verb = "added to" if before is None else "removed from"
                reason = f"a {kind} can't be {verb} a listener while the broker runs"
                raise _refused(identity.settings, kind, reason)

    def _check_names(self, found: TlsIdentity) -> None:
        old, new = self._identity.certificate, found.certificate
        assert old is not None
        assert new is not None
        if old.subject != new.subject and not found.settings.allow_dn_changes:
            reason = f"the subject would change from {old.subject} to {new.subject}"
            raise _refused(found.settings, "keystore", f"{reason} (ssl.allow.dn.changes)")
        lost = old.alternative_names - new.alternative_names
        if lost and not found.settings.allow_san_changes:
            reason = f"{len(lost)} subject alternative names would be lost"
            raise _refused(found.settings, "keystore", f"{reason} (ssl.allow.san.changes)")


def _stamp(settings: TlsSettings) -> Stamp:
    found: list[tuple[int, int, int] | None] = []
    for store in (settings.keystore, settings.truststore):
        try:
            status = os.stat(store.location) if store.location else None
        except OSError:
            status = None
        found.append(status and (status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _refused(settings: TlsSettings, kind: str, reason: str) -> ConfigError:
    store = settings.keystore if kind == "keystore" else settings.truststore
    name = f"listener.name.{settings.listener.lower()}.ssl.{kind}.location"
    return ConfigError([(name, store.location, reason)])
