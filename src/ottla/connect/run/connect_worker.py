"""A Connect worker: herder, REST server, and what runs connectors, put together.

    with ConnectWorker(properties) as worker:
        print(worker.url)

A distributed worker shares connectors with the other workers of its group. A standalone one
(`alone`) runs all of them, and keeps configs and statuses in memory.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Self

from starlette.applications import Starlette

from ottla.client import Admin
from ottla.client.group_member import GroupMember
from ottla.connect import config_providers
from ottla.connect.errors import ConfigException
from ottla.connect.herder.backing_log import BackingLog, MemoryBackingLog, TopicBackingLog
from ottla.connect.herder.connector_reconciler import StartConnector
from ottla.connect.herder.connector_requests import ConnectorRequests
from ottla.connect.herder.connector_views import ConnectorViews
from ottla.connect.herder.herder import Herder, WorkerMembership
from ottla.connect.herder.worker_group_member import (
    PROTOCOL,
    PROTOCOL_TYPE,
    StandaloneMember,
    WorkerGroupMember,
)
from ottla.connect.loggers import Loggers
from ottla.connect.plugin_catalog import PluginCatalog
from ottla.connect.plugins import Plugins
from ottla.connect.rest import tls
from ottla.connect.rest.access import refuse_access, required_access
from ottla.connect.rest.app import RestServices, add_routes, blank_app
from ottla.connect.run import connector_offsets, connector_runner
from ottla.connect.run.worker_context import WorkerContext
from ottla.connect.worker_config import EVERYWHERE, WorkerConfig
from ottla.errors import KafkaError
from ottla.queries.supervisor import Supervisor
from ottla.rest.guard import RestGuard
from ottla.rest.hypercorn_server import HypercornServer
from ottla.rest.listening_socket import url_of
from ottla.rest.settings import CONNECT_REALM, AccessSettings, access_of, warn_if_open

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER_ID_S: Final = 60.0  # how long the cluster id is cached
ASK_S_MAX: Final = 5.0

Spark = Callable[[], "SparkSession"]


def make_herder(
    worker: WorkerContext,
    *,
    alone: bool,
    start: StartConnector,
    plugins: PluginCatalog | None = None,
    levels: Callable[[str, str], object] = lambda logger, level: None,
) -> Herder:
    """A herder without a REST server, as MirrorMaker needs it."""
    catalog = plugins or PluginCatalog(worker.properties)
    settings = WorkerConfig(worker.properties)
    config_topic = _topic(worker, settings, "config", 1)
    status_topic = _topic(worker, settings, "status", settings.number("status.storage.partitions"))
    configs: BackingLog = MemoryBackingLog() if alone else config_topic

    def join(herder: Herder) -> WorkerMembership:
        url = f"{settings.scheme}://{worker.id}"
        if alone:
            return StandaloneMember(url, herder)
        return WorkerGroupMember(
            GroupMember(
                worker.bootstrap_servers,
                settings.get("group.id"),
                protocol_type=PROTOCOL_TYPE,
                protocol=PROTOCOL,
                session_timeout_ms=settings.number("session.timeout.ms"),
                rebalance_timeout_ms=settings.number("rebalance.timeout.ms"),
                settings=worker.client(),
            ),
            url=url,
            herder=herder,
            heartbeat_s=settings.seconds("heartbeat.interval.ms"),
            session_s=settings.seconds("session.timeout.ms"),
            ready=lambda: configs.replayed,
        )

    return Herder(
        worker.id,
        configs=configs,
        statuses=MemoryBackingLog() if alone else status_topic,
        start=start,
        join=join,
        levels=levels,
        version_of=catalog.version_of,
    )


def _topic(
    worker: WorkerContext, settings: WorkerConfig, kind: str, partitions: int
) -> TopicBackingLog:
    return TopicBackingLog(
        worker.bootstrap_servers,
        settings.get(f"{kind}.storage.topic"),
        partitions=partitions,
        replication_factor=settings.replication_factor(kind),
        configs=settings.topic_configs(kind),
        settings=worker.client(),
    )


def runs_on(spark: Spark, worker: WorkerContext) -> StartConnector:
    """Runs each connector as a streaming query; one supervisor watches all of them."""
    supervisor = Supervisor("connect")
    return functools.partial(
        connector_runner.start_connector, spark=spark, worker=worker, supervisor=supervisor
    )


def make_requests(
    herder: Herder, worker: WorkerContext, plugins: PluginCatalog
) -> ConnectorRequests:
    def offsets_of(name: str, config: Mapping[str, str]) -> connector_offsets.ConnectorOffsets:
        return connector_offsets.connector_offsets(name, config, worker)

    views = ConnectorViews(herder, plugins.type_of, plugins.masked)
    return ConnectorRequests(herder, views, validate=plugins.validate, offsets_of=offsets_of)


class ConnectWorker:
    """`start` starts connectors; by default they run on the Spark session that `spark` gives."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        alone: bool = False,
        spark: Spark,
        start: StartConnector | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        properties = config_providers.resolve_worker_config(properties)
        self.settings = settings = WorkerConfig(properties)
        settings.check()
        host, port = settings.listener
        app = blank_app()
        secure = settings.scheme == "https"
        access = _access(properties)
        mutual = secure and tls.is_mutual(properties)
        warn_if_open("CONNECT'S REST", host, port, access, mutual_tls=mutual)
        guard = RestGuard(app, access, needs=required_access, refuse=refuse_access)
        context = tls.server_context(properties) if secure else None
        self._to_others = tls.client_context(properties) if secure else None
        # Its port is part of the worker id.
        self._serving = HypercornServer(guard, host, port, tls=context)
        properties_with_group = (
            properties if alone else {**properties, "group.id": settings.get("group.id")}
        )
        worker = WorkerContext(properties_with_group, settings.advertised(host, self._serving.port))
        self.worker = worker
        loggers = Loggers()
        begin = start or runs_on(spark, worker)
        catalog = PluginCatalog(worker.properties, plugins)
        self.herder = make_herder(
            worker, alone=alone, start=begin, plugins=catalog, levels=loggers.set
        )
        self.requests = make_requests(self.herder, worker, catalog)
        self._add_routes(app, catalog, loggers)

    @property
    def url(self) -> str:
        return f"{self.settings.scheme}://{self.worker.id}"

    @property
    def local_url(self) -> str:
        """For callers on this machine, where the advertised address may not be reachable."""
        host = self._serving.host
        shown = "localhost" if host in EVERYWHERE else host
        return url_of(shown, self._serving.port, secure=self.settings.scheme == "https")

    @property
    def listener(self) -> str:
        """The listener, with its actual port."""
        return self._serving.url

    def start(self) -> Self:
        self._serving.start()
        self.herder.start()
        return self

    def close(self) -> None:
        self._serving.stop()
        self.herder.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_routes(self, app: Starlette, plugins: PluginCatalog, loggers: Loggers) -> None:
        settings = self.settings
        services = RestServices(
            self.requests.views,
            self.requests,
            plugins,
            loggers,
            _ClusterId(self.worker).ask,
            ready=lambda: self.herder.ready,
            topic_tracking=settings.flag("topic.tracking.enable"),
            topic_tracking_reset=settings.flag("topic.tracking.allow.reset"),
            tls=self._to_others,
        )
        add_routes(app, services, admin=settings.admin)


def _access(properties: Mapping[str, str]) -> AccessSettings:
    try:
        return access_of(properties, realm=CONNECT_REALM)
    except KafkaError as error:
        raise ConfigException(str(error)) from None


class _ClusterId:
    """The broker's cluster id, cached; an unreachable broker is assumed to be the same one."""

    def __init__(self, worker: WorkerContext) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._found, self._until = "", 0.0

    def ask(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._found = self._ask()
                    self._until = time.monotonic() + CLUSTER_ID_S
                except KafkaError:
                    if not self._found:
                        raise
            return self._found

    def _ask(self) -> str:
        worker = self._worker
        with Admin(
            worker.bootstrap_servers, settings=worker.client(), timeout_s=ASK_S_MAX
        ) as admin:
            return admin.cluster().cluster_id
