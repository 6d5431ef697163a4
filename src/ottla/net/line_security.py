"""How our own lines to other brokers are protected: TLS, SASL, both or neither."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.auth.sasl_client import Proof, SaslLogin
from ottla.net.listener_tls import ListenerTls


@dataclass(slots=True)
class LineSecurity:
    """`tls` is a listener's: its context may be another one for the next line."""

    tls: ListenerTls | None = None
    login: SaslLogin | None = None
    _fetch: asyncio.Task[Proof | None] | None = field(default=None, repr=False)

    async def proof(self, host: str) -> Proof | None:
        """What the login at this host needs: a bearer token, a ticket, or nothing.

        One fetch at a time: an endpoint or a KDC that hangs holds one helper thread, not all.
        """
        login = self.login
        if login is None or (login.source is None and login.tickets is None):
            return None
        while self._fetch is not None and not self._fetch.done():
            if login.source is not None:  # one token is for all lines, a ticket for one
                return await asyncio.shield(self._fetch)
            await asyncio.wait([self._fetch])
        fetch = asyncio.to_thread(login.proof, host)
        self._fetch = asyncio.get_running_loop().create_task(fetch)
        # A line that gave up does not ask for the failure, which is no mistake of ours.
        self._fetch.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._fetch)
