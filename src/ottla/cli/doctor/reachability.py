"""Checks what is reachable: brokers, registry, SQL server, Connect worker, recorded services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.cli.doctor.diagnosis import Diagnosis, fine, missing, wrong
from ottla.cli.local.health import PROBES
from ottla.cli.local.run_records import SUPERVISOR, RunRecords
from ottla.cli.local.stack import CLUSTER, UP
from ottla.client.admin import Admin
from ottla.client.protocol.connection import BrokerConnection, Node
from ottla.client.topics import TopicDescription
from ottla.errors import ErrorCode, KafkaError

SECTION: Final = "reachable"
ASK_S_MAX: Final = 5.0
NAMED_MAX: Final = 5

STARTERS: Final = {
    "registry": "`ottla up` or `ottla registry` starts one.",
    "sql": "`ottla up` or `ottla sql-server` starts one.",
    "connect": "`ottla up` or `ottla connect worker` starts one.",
}
TITLES: Final = {"registry": "registry", "sql": "SQL server", "connect": "Connect worker"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`given`: the user named the address, so it is an error if nothing listens there."""

    address: str
    given: bool


def reachability(
    brokers: Endpoint, services: Mapping[str, Endpoint], settings: Mapping[str, str]
) -> Iterator[Diagnosis]:
    yield from _brokers(brokers, settings)
    for kind, endpoint in services.items():
        yield _service(kind, endpoint)
    yield from _recorded()


def _brokers(endpoint: Endpoint, settings: Mapping[str, str]) -> Iterator[Diagnosis]:
    try:
        with Admin(endpoint.address, settings=dict(settings), timeout_s=ASK_S_MAX) as admin:
            cluster = admin.cluster()
            nodes = cluster.nodes
            words = (
                f"{endpoint.address}: cluster {cluster.cluster_id}, {_count(len(nodes), 'broker')}"
            )
            yield fine(SECTION, "broker", words)
            yield from _advertised(nodes, settings)
            yield from _partitions(admin)
    except KafkaError as error:
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE and not endpoint.given:
            words = f"nothing listens on {endpoint.address}"
            yield missing(SECTION, "broker", words, "`ottla up` or `ottla serve` starts one.")
            return
        remedy = "Is it running there? Does --command-config say how to log in (docs/security.md)?"
        yield wrong(SECTION, "broker", str(error), remedy)


def _advertised(nodes: tuple[Node, ...], settings: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Clients connect there: an address that only the broker's own machine knows is no use."""
    for node in nodes:
        try:
            BrokerConnection(node.host, node.port, settings=settings, timeout_s=ASK_S_MAX).close()
        except KafkaError as error:
            words = f"broker {node.id} advertises {node}, which does not answer here: {error}"
            remedy = "Set its advertised.listeners to an address that clients can reach."
            yield wrong(SECTION, f"broker {node.id}", words, remedy)


def _partitions(admin: Admin) -> Iterator[Diagnosis]:
    offline, lagging = [], []
    names = admin.topics.names(internal=True)
    for topic in (admin.topics.describe(*names) if names else {}).values():
        if not isinstance(topic, TopicDescription):
            continue
        for part in topic.partitions:
            name = f"{topic.name}-{part.partition}"
            if part.leader is None or part.leader < 0:
                offline.append(name)
            elif len(part.isr) < len(part.replicas):
                lagging.append(name)
    if offline:
        words = f"without a leader: {_listed(offline)}"
        yield wrong(SECTION, "partitions", words, "Start the brokers that have their replicas.")
    if lagging:
        words = f"with replicas that are not in sync: {_listed(lagging)}"
        yield wrong(SECTION, "replicas", words, "Is a broker down, or slow? See its log.")


def _service(kind: str, endpoint: Endpoint) -> Diagnosis:
    health = PROBES[kind](endpoint.address)
    name = TITLES[kind]
    if health.ready:
        words = f"{endpoint.address} {health.words}".rstrip()
        return fine(SECTION, name, words)
    if health.reached:
        words = f"{endpoint.address} answers, but is not ready: {health.words or 'no such service'}"
        return wrong(SECTION, name, words, "Wait a moment; else its log says why.")
    words = f"{endpoint.address}: {health.words}"
    if endpoint.given:
        return wrong(SECTION, name, words, STARTERS[kind])
    return missing(SECTION, name, words, STARTERS[kind])


def _recorded() -> Iterator[Diagnosis]:
    """Services that `ottla up` or `ottla cluster up` started and that have ended since."""
    records = RunRecords()
    for started_by in (UP, CLUSTER):
        found = [service for service in records.find(started_by) if service.name != SUPERVISOR]
        alive = [service for service in found if service.is_alive]
        for record in found:
            if alive and not record.is_alive and not record.is_restarting:
                words = f"`{started_by}` has started it, and it {record.note or 'has ended'}"
                remedy = f"Its log: {record.log}"
                if started_by == CLUSTER:
                    remedy = f"`ottla cluster restart` starts it again. {remedy}"
                yield wrong(SECTION, record.name, words, remedy)


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
