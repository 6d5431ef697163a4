"""How our own lines to other brokers are protected: TLS, SASL, both or neither."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ottla.auth.sasl_client import BearerToken, SaslLogin
from ottla.net.listener_tls import ListenerTls


@dataclass(slots=True)
class LineSecurity:
    """`tls` is a listener's: its context may be another one for the next line."""

    tls: ListenerTls | None = None
    login: SaslLogin | None = None
    _fetch: asyncio.Task[BearerToken] | None = field(default=None, repr=False)

    async def bearer(self) -> BearerToken | None:
        """The token for OAUTHBEARER; None for other mechanisms.

        All lines share one fetch: an endpoint that hangs holds one helper thread, not all.
        """
        if self.login is None or self.login.source is None:
            return None
        if self._fetch is None or self._fetch.done():
            fetch = asyncio.to_thread(self.login.source.token)
            self._fetch = asyncio.get_running_loop().create_task(fetch)
            # A line that gave up does not ask for the failure, which is no mistake of ours.
            self._fetch.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._fetch)
