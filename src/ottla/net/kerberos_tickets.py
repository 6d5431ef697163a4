"""Service tickets from a keytab or a ticket cache, for a client's login by GSSAPI."""

from __future__ import annotations

from ottla.auth.gssapi import GssFailure, GssStart
from ottla.auth.kerberos_login import KerberosLogin
from ottla.auth.sasl import refused
from ottla.net.gss_library import gss_library


class KerberosTickets:
    """The tickets of one user; any thread may ask."""

    def __init__(self, login: KerberosLogin) -> None:
        """ImportError if this machine has no Kerberos."""
        self._library = gss_library()
        self._login = login
        # With a keytab the library renews the ticket halfway through its lifetime. The cache is in
        # this process's memory, so that nobody else's cache is touched.
        memory = f"MEMORY:ottla {login.principal} {login.keytab}"
        self._cache = memory if login.keytab else login.cache

    def begin(self, host: str) -> GssStart:
        """Asks the KDC, and may wait for it: not on an event loop."""
        login = self._login
        try:
            credential = self._library.initiator(
                principal=login.principal, keytab=login.keytab, cache=self._cache
            )
            context = credential.initiate(f"{login.service}@{host}")
            return GssStart(context, context.step(b""))
        except GssFailure as failure:
            raise refused(f"no ticket for {login.service}@{host}: {failure}") from None
