"""connect-mirror-maker: one process with a herder for each replication flow."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Final

from ottla.connect import config_providers
from ottla.connect.errors import ConfigException
from ottla.connect.herder import config_state
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.rest_exceptions import ConnectRestException, RequestTargetException
from ottla.connect.mirror_flows import MirrorFlow, mirror_flows
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.run.connect_worker import make_herder, runs_on
from ottla.connect.run.worker_context import WorkerContext
from ottla.connect.worker_config import WorkerConfig
from ottla.errors import KafkaError
from ottla.queries.spark_provider import SparkProvider
from ottla.rest.stop_event import stop_event

LOOK_S: Final = 0.5

log = logging.getLogger("ottla.connect")


def run_mirror_maker(properties: Mapping[str, str], near: Collection[str] = ()) -> int:
    """Runs until a signal ends it."""
    flows = mirror_flows(properties, near)
    if not flows:
        raise ConfigException("No flow is enabled: `a->b.enabled = true` enables one.")
    spark = connect_spark(WorkerConfig(config_providers.resolve_worker_config(properties)))
    stopping = stop_event()
    with ExitStack() as running:
        running.callback(spark.stop)
        for flow in flows:
            herder = make_flow_herder(flow, spark)
            running.callback(herder.close)
            herder.start()
            threading.Thread(
                target=configure, args=(herder, flow, stopping), name=flow.name, daemon=True
            ).start()
        stopping.wait()
    return 0


def make_flow_herder(flow: MirrorFlow, spark: SparkProvider) -> Herder:
    worker = WorkerContext(
        config_providers.resolve_worker_config(flow.worker),
        f"{socket.gethostname()}:{os.getpid()}/{flow.name}",
    )
    return make_herder(worker, alone=False, start=runs_on(spark, worker))


def configure(herder: Herder, flow: MirrorFlow, stopping: threading.Event) -> None:
    """On the leader of a flow's workers: write the connectors of the properties file. Repeats,
    in case the write fails or the leader changes."""
    while not stopping.wait(LOOK_S):
        try:
            herder.check_is_leader()
            written = herder.configs.connectors
            changed = [
                config_state.connector_record(name, config)
                for name, config in flow.connectors.items()
                if name not in written or written[name].config != config
            ]
            gone = [connector for connector in written if connector not in flow.connectors]
            for connector in gone:
                changed += config_state.deletion_records(connector)
            if not changed:
                continue
            herder.write_configs(changed)
            log.info("%s: %s", flow.name, ", ".join(flow.connectors))
        except (RequestTargetException, ConnectRestException):
            continue
        except KafkaError as error:
            log.warning("%s: %s", flow.name, error)
