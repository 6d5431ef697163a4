"""TLS handshakes: a failing one delays no other."""

from __future__ import annotations

import asyncio
import socket
import ssl

from ottla.net.handshakes import Handshakes
from ottla.net.tls_stream import TlsStream

COUNT = 20  # more than take a step in one turn


def test_a_failing_handshake_does_not_stop_the_turn() -> None:
    """All are ready at once; the callback of the first one raises."""
    ended: list[int] = []
    raised: list[BaseException] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
        handshakes = Handshakes(loop, limit_s=1000)  # a deadline would end them as well
        pairs = [socket.socketpair() for _ in range(COUNT)]
        for number, (ours, theirs) in enumerate(pairs):
            ours.setblocking(False)
            theirs.send(b"GET / HTTP/1.1\r\n\r\n")

            def finished(stream: TlsStream | None, reason: str, number: int = number) -> None:
                ended.append(number)
                if number == 0:
                    raise RuntimeError("a bug of the server's")

            handshakes.begin(ours, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), finished)
        async with asyncio.timeout(60):
            while len(handshakes):
                await asyncio.sleep(0.01)
        for _, theirs in pairs:
            theirs.close()

    asyncio.run(main())
    assert sorted(ended) == list(range(COUNT))
    assert [str(error) for error in raised] == ["a bug of the server's"]
