"""An HTTP server in a thread: its port is known before it starts, its failure is raised."""

from __future__ import annotations

import logging
import ssl
import threading
from typing import Self

from ottla.rest.listening_socket import listening_socket, url_of

log = logging.getLogger("ottla.rest")


class ServerThread:
    """`start` returns once the server serves, and raises what prevents that.

    A subclass implements `_serve`, which runs in the thread and calls `_serving` when it is ready,
    and `_shut_down`, which makes `_serve` return.
    """

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None, thread_name: str
    ) -> None:
        self._tls = tls
        self._socket = listening_socket(host, port)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        self._started = threading.Event()
        self._failure: BaseException | None = None
        # A daemon, so that a server that nobody stops does not keep the interpreter alive.
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port, secure=self._tls is not None)

    def start(self, timeout_s: float | None = None) -> Self:
        self._thread.start()
        if not self._started.wait(timeout_s):
            raise RuntimeError("the HTTP server did not start")
        if self._failure is not None:
            self.stop()
            raise self._failure
        return self

    def stop(self) -> None:
        """Finish open requests, and close the socket. A second stop does nothing."""
        if self._thread.is_alive():
            self._started.wait()  # only then is there something to shut down
            self._shut_down()
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self) -> None:
        raise NotImplementedError

    def _shut_down(self) -> None:
        raise NotImplementedError

    def _serving(self) -> None:
        self._started.set()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            if self._started.is_set():  # nobody waits for this error
                log.error("The HTTP server at %s failed", self.url, exc_info=error)
            self._failure = error
        self._started.set()
