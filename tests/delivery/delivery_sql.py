"""The same for a SQL server: a connector's kills, while its queries run (delivery_sql_shop.py)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat_confluent import make_topic
from delivery_connect import HERE, ConnectRun, WorkerLife, lives, summary
from delivery_spark_points import WEAK
from delivery_sql_shop import INPUTS, PARTITIONS, Shop

from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig

__all__ = ["SqlRun", "lives", "summary"]


@dataclass(slots=True)
class SqlRun(ConnectRun):
    connector: str = "sql"
    job: Path = HERE / "delivery_sql_job.py"
    host_names: str = "streams-"
    delivery: str = "exactly_once"

    def _made_subject(self) -> Shop:
        """The statements are in the command topic before the first server starts."""
        servers = self._broker.bootstrap
        shop = Shop(servers, together=self.seed % 2 == 1)
        for topic in (*INPUTS, *shop.outputs):
            make_topic(servers, topic, PARTITIONS)
        shop.open()
        engine = Engine(KsqlConfig({"bootstrap.servers": servers}))
        engine.start()
        try:
            engine.wait_ready()
            engine.execute(shop.statements, {"auto.offset.reset": "earliest"})
        finally:
            engine.close()
        return shop

    def _arguments(self) -> dict[str, Any]:
        properties = {
            "bootstrap.servers": self._broker.bootstrap,
            "ksql.streams.state.dir": str(self.directory / "state"),
            "ottla.sql.spark.heap": "512m",
        }
        return {"properties": properties}

    def _environment(self, life: WorkerLife, number: int) -> dict[str, str]:
        weak = {WEAK: "1"} if self.delivery == "at_least_once" else {}
        return {**ConnectRun._environment(self, life, number), **weak}
