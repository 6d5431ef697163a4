"""Replaces certificates during all other faults, as an operator would do it.

A broker's certificate is replaced in its file, or by a change of its configuration. A new authority
is introduced in three steps: every broker trusts both, every broker has a certificate of the new
one, no broker trusts the old one. Between two steps the operator waits until every broker, even one
that is down, shows that it has completed the last one.
"""

from __future__ import annotations

import queue
import ssl
import threading
from collections import Counter
from collections.abc import Callable

from chaos_cluster import ChaosBroker, Cluster
from chaos_security import LISTENERS, ClusterSecurity, shown_certificate

from ottla.client import Admin
from ottla.client.configs import ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.net.certificates import certificates_of

LOOK_S = 0.2
ANSWER_S = 2.0
CALL_S = 5.0

Step = Callable[[], None]


class RunOver(Exception):
    """The run is over, or has timed out."""


class CertificateExchange:
    """A thread that does one exchange after the other; `troubles` says what is still missing."""

    def __init__(
        self,
        cluster: Cluster,
        security: ClusterSecurity,
        accident: Callable[[str], None],
    ) -> None:
        self._brokers = cluster.brokers
        self._bootstrap = cluster.bootstrap
        self._security = security
        self._accident = accident
        self._authority = 0
        self._steps: queue.SimpleQueue[tuple[str, Step] | None] = queue.SimpleQueue()
        self._asked = 0
        self._waits_for = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates")
        self.done: Counter[str] = Counter()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._steps.put(None)
        self._thread.join(30)

    def ask(self, kind: str, number: str) -> None:
        """`renew by file` or `renew by config` for a broker, or `new authority`."""
        steps: dict[str, Step] = {
            "renew by file": lambda: self._renew_file(number),
            "renew by config": lambda: self._renew_config(number),
            "new authority": self._new_authority,
        }
        self._asked += 1
        self._steps.put((kind, steps[kind]))

    def troubles(self) -> str:
        """The exchanges that are not complete: a broker does not show its newest certificate, or
        another broker does not trust it."""
        if self.done.total() < self._asked:
            return f"{self._asked - self.done.total()} exchanges to do; {self._waits_for}"
        for broker in self._brokers.values():
            if said := self._missing(broker):
                return said
        return ""

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            kind, action = step
            try:
                action()
            except RunOver:
                return
            except Exception as error:
                self._accident(f"{kind}: {error!r}")
                raise
            self.done[kind] += 1

    # What an operator does

    def _renew_file(self, number: str) -> None:
        self._security.renew(number, self._security.authorities[self._authority])

    def _renew_config(self, number: str) -> None:
        security = self._security
        issued = security.issue(number, security.authorities[self._authority])
        named = {
            f"listener.name.{name}.ssl.keystore.location": str(issued.keystore)
            for name in LISTENERS
        }
        self._await(lambda: self._alter(number, named))
        security.keystores[number], security.certificates[number] = issued.keystore, issued

    def _alter(self, number: str, named: dict[str, str]) -> str:
        settings = self._security.client_settings("operator")
        try:
            with Admin(self._bootstrap, settings=settings, timeout_s=CALL_S) as admin:
                admin.configs.alter(ResourceType.BROKER, number, set=named)
        except KafkaError as error:
            if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG):
                raise
            return f"the configuration of broker {number} can't be changed: {error}"
        return ""

    def _new_authority(self) -> None:
        security, brokers = self._security, self._brokers
        old, new = security.authorities[self._authority : self._authority + 2]
        for number in brokers:
            security.trust(number, [old, new])
        stranger = new.issue("stranger")  # a broker's peer, as far as the handshake knows
        self._await_each(lambda broker: self._refuses(broker, stranger.keystore))
        for number in brokers:
            security.renew(number, new)
        self._await_each(self._missing)
        for number in brokers:
            security.trust(number, [new])
        self._authority += 1

    # What an operator sees

    def _missing(self, broker: ChaosBroker) -> str:
        """A listener that does not show the newest certificate of this broker."""
        issued = self._security.certificates[broker.number]
        (wanted, *_) = certificates_of(issued.certificate.read_text())
        for name, port in (("client", broker.port), ("internal", broker.internal_port)):
            try:
                shown = shown_certificate(port, self._context(issued.keystore), ANSWER_S)
            except OSError as error:
                return f"{name} listener of broker {broker.number}: {error!r}"
            if shown != wanted:
                return f"{name} listener of broker {broker.number} shows another certificate"
        return ""

    def _refuses(self, broker: ChaosBroker, keystore: object) -> str:
        """A peer with this certificate is no broker yet, to this one."""
        try:
            shown_certificate(broker.internal_port, self._context(keystore), ANSWER_S)
        except OSError as error:
            return f"broker {broker.number} does not trust a certificate: {error!r}"
        return ""

    def _context(self, keystore: object) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._security.trusted))
        context.load_cert_chain(str(keystore))
        return context

    def _await_each(self, missing: Callable[[ChaosBroker], str]) -> None:
        for broker in self._brokers.values():
            self._await(lambda broker=broker: missing(broker))

    def _await(self, missing: Callable[[], str]) -> None:
        while said := missing():
            self._waits_for = said
            if self._stopping.wait(LOOK_S):
                raise RunOver
        self._waits_for = ""
