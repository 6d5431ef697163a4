"""connect-mirror-maker: a herder for each flow between two clusters, in one process."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Final

from ottla.connect import providers
from ottla.connect.errors import ConfigException
from ottla.connect.herder import configs as config_log
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.refusals import Elsewhere, Refusal
from ottla.connect.mirror_flows import Flow, flows_of
from ottla.connect.process import until_told
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.run.connect_worker import make_herder, runs_on
from ottla.connect.run.worker import Worker
from ottla.connect.settings import Settings
from ottla.errors import KafkaError
from ottla.queries.spark_provider import SparkProvider

LOOK_S: Final = 0.5

log = logging.getLogger("ottla.connect")


def run(properties: Mapping[str, str], near: Collection[str] = ()) -> int:
    """Until a signal ends it."""
    flows = flows_of(properties, near)
    if not flows:
        raise ConfigException("No flow is enabled: `a->b.enabled = true` enables one.")
    spark = connect_spark(Settings(providers.own(properties)))
    with ExitStack() as running, until_told() as stopping:
        running.callback(spark.stop)
        for flow in flows:
            herder = make_flow(flow, spark)
            running.callback(herder.close)
            herder.start()
            threading.Thread(
                target=configure, args=(herder, flow, stopping), name=flow.name, daemon=True
            ).start()
        stopping.wait()
    return 0


def make_flow(flow: Flow, spark: SparkProvider) -> Herder:
    worker = Worker(providers.own(flow.worker), f"{socket.gethostname()}:{os.getpid()}/{flow.name}")
    return make_herder(worker, alone=False, start=runs_on(spark, worker))


def configure(herder: Herder, flow: Flow, stopping: threading.Event) -> None:
    """Whoever leads the workers of a flow writes what the file says, until that is written."""
    while not stopping.wait(LOOK_S):
        try:
            herder.check_leads()
            written = herder.configs.connectors
            changed = [
                config_log.connector_pair(name, config)
                for name, config in flow.connectors.items()
                if name not in written or written[name].config != config
            ]
            gone = [each for each in written if each not in flow.connectors]
            for each in gone:
                changed += config_log.deletion(each)
            if not changed:
                continue
            herder.write_configs(changed)
            log.info("%s: %s", flow.name, ", ".join(flow.connectors))
        except (Elsewhere, Refusal):
            continue
        except KafkaError as error:
            log.warning("%s: %s", flow.name, error)
