"""How connections to other brokers are secured: by TLS, SASL, both or neither."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.auth.sasl_client import Proof, SaslLogin
from ottla.net.listener_tls import ListenerTls


@dataclass(slots=True)
class ConnectionSecurity:
    """`tls` is the inter-broker listener's, whose context changes when certificates do."""

    tls: ListenerTls | None = None
    login: SaslLogin | None = None
    _fetch: asyncio.Task[Proof | None] | None = field(default=None, repr=False)

    async def proof(self, host: str) -> Proof | None:
        """What the login at this host needs: a bearer token, a ticket, or nothing.

        One fetch at a time, so that an endpoint or a KDC that hangs blocks one helper thread only.
        """
        login = self.login
        if login is None or (login.source is None and login.tickets is None):
            return None
        while self._fetch is not None and not self._fetch.done():
            if login.source is not None:  # a token serves all connections, a ticket only one
                return await asyncio.shield(self._fetch)
            await asyncio.wait([self._fetch])
        fetch = asyncio.to_thread(login.proof, host)
        self._fetch = asyncio.get_running_loop().create_task(fetch)
        # A connection that timed out never retrieves the exception; asyncio would log that.
        self._fetch.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._fetch)
