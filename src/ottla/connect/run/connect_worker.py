"""A worker, put together: herder, REST, and what runs connectors.

    with ConnectWorker(properties) as worker:
        print(worker.url)

A distributed worker shares connectors with the others of its group; a standalone one (`alone`) has
nobody to share with, and keeps in memory what it was told.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from starlette.applications import Starlette

from ottla.client import Admin
from ottla.client.group_member import GroupMember
from ottla.connect import providers
from ottla.connect.errors import ConfigException
from ottla.connect.herder.answers import Answers
from ottla.connect.herder.changes import Changes
from ottla.connect.herder.herder import Herder, Membership
from ottla.connect.herder.logs import Log, MemoryLog, TopicLog
from ottla.connect.herder.members import PROTOCOL, PROTOCOL_TYPE, Alone, Group
from ottla.connect.herder.runs import Start
from ottla.connect.loggers import Loggers
from ottla.connect.plugin_answers import PluginAnswers
from ottla.connect.plugins import Plugins
from ottla.connect.rest import tls
from ottla.connect.rest.access import needs, refuse
from ottla.connect.rest.app import Desk, add_routes, blank_app
from ottla.connect.run import offsets, runner
from ottla.connect.run.worker import Worker
from ottla.connect.settings import EVERYWHERE, Settings
from ottla.errors import KafkaError
from ottla.queries.supervisor import Supervisor
from ottla.rest.guard import RestGuard
from ottla.rest.settings import CONNECT_REALM, AccessSettings, access_of, warn_if_open
from ottla.spark.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER_ID_S: Final = 60.0  # how long a cluster's id is believed
ASK_S_MAX: Final = 5.0

Spark = Callable[[], "SparkSession"]


def make_herder(
    worker: Worker,
    *,
    alone: bool,
    start: Start,
    plugins: PluginAnswers | None = None,
    levels: Callable[[str, str], object] = lambda logger, level: None,
) -> Herder:
    """Without REST: a mirror's herders have none."""
    known = plugins or PluginAnswers(worker.properties)
    settings = Settings(worker.properties)
    config_topic = _topic(worker, settings, "config", 1)
    status_topic = _topic(worker, settings, "status", settings.number("status.storage.partitions"))
    configs: Log = MemoryLog() if alone else config_topic

    def join(herder: Herder) -> Membership:
        url = f"{settings.scheme}://{worker.id}"
        if alone:
            return Alone(url, herder)
        return Group(
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
        statuses=MemoryLog() if alone else status_topic,
        start=start,
        join=join,
        levels=levels,
        version_of=known.version_of,
    )


def _topic(worker: Worker, settings: Settings, kind: str, partitions: int) -> TopicLog:
    return TopicLog(
        worker.bootstrap_servers,
        settings.get(f"{kind}.storage.topic"),
        partitions=partitions,
        replication_factor=settings.replication_factor(kind),
        configs=settings.topic_configs(kind),
        settings=worker.client(),
    )


def runs_on(spark: Spark, worker: Worker) -> Start:
    """Connectors as they run: each one a streaming query, all with one supervisor."""
    supervisor = Supervisor("connect")
    return functools.partial(runner.start, spark=spark, worker=worker, supervisor=supervisor)


def make_changes(herder: Herder, worker: Worker, plugins: PluginAnswers) -> Changes:
    def offsets_of(name: str, config: Mapping[str, str]) -> offsets.ConnectorOffsets:
        return offsets.of(name, config, worker)

    answers = Answers(herder, plugins.type_of, plugins.masked)
    return Changes(herder, answers, validate=plugins.validate, offsets_of=offsets_of)


class ConnectWorker:
    """`start` is what starts connectors; without it they run on Spark, as `spark` gives it."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        alone: bool = False,
        spark: Spark,
        start: Start | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        properties = providers.own(properties)
        self.settings = settings = Settings(properties)
        settings.check()
        host, port = settings.listener
        app = blank_app()
        secure = settings.scheme == "https"
        access = _access(properties)
        mutual = secure and tls.is_mutual(properties)
        warn_if_open("CONNECT'S REST", host, port, access, mutual_tls=mutual)
        guard = RestGuard(app, access, needs=needs, refuse=refuse)
        context = tls.server_context(properties) if secure else None
        self._to_others = tls.client_context(properties) if secure else None
        self._serving = Serving(guard, host, port, tls=context)  # its port is this worker's name
        named = properties if alone else {**properties, "group.id": settings.get("group.id")}
        worker = Worker(named, settings.advertised(host, self._serving.port))
        self.worker = worker
        loggers = Loggers()
        begin = start or runs_on(spark, worker)
        answers = PluginAnswers(worker.properties, plugins)
        self.herder = make_herder(
            worker, alone=alone, start=begin, plugins=answers, levels=loggers.set
        )
        self.changes = make_changes(self.herder, worker, answers)
        self._add_routes(app, answers, loggers)

    @property
    def url(self) -> str:
        return f"{self.settings.scheme}://{self.worker.id}"

    @property
    def local_url(self) -> str:
        """For whoever is on the same machine: what others are told may not lead here."""
        host = self.settings.listener[0]
        shown = "localhost" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
        return f"{self.settings.scheme}://{shown}:{self._serving.port}"

    @property
    def listener(self) -> str:
        """As `listeners` says it, with the port that it has."""
        host = self.settings.listener[0]
        shown = f"[{host}]" if ":" in host else host
        return f"{self.settings.scheme}://{shown}:{self._serving.port}"

    def start(self) -> Self:
        self._serving.start()
        self.herder.start()
        return self

    def close(self) -> None:
        self._serving.close()
        self.herder.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _add_routes(self, app: Starlette, plugins: PluginAnswers, loggers: Loggers) -> None:
        settings = self.settings
        desk = Desk(
            self.changes.answers,
            self.changes,
            plugins,
            loggers,
            _ClusterId(self.worker).ask,
            ready=lambda: self.herder.ready,
            topic_tracking=settings.flag("topic.tracking.enable"),
            topic_tracking_reset=settings.flag("topic.tracking.allow.reset"),
            tls=self._to_others,
        )
        add_routes(app, desk, admin=settings.admin)


def _access(properties: Mapping[str, str]) -> AccessSettings:
    try:
        return access_of(properties, realm=CONNECT_REALM)
    except KafkaError as error:
        raise ConfigException(str(error)) from None


class _ClusterId:
    """Asked of the broker now and then; one that can't be reached is believed to be the same."""

    def __init__(self, worker: Worker) -> None:
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
