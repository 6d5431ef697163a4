"""A client for a worker's REST, and connectors that only claim to run."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "herder"))

from herders import Stage, properties, until

from ottla.connect.api import SinkConnector, SourceConnector
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.plugins import Plugin, Plugins, PluginType
from ottla.connect.run.connect_worker import ConnectWorker

__all__ = ["Answer", "Stage", "ask", "until", "worker"]


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def words(self) -> tuple[int, str]:
        """The status and message of an error response; its two status codes are equal."""
        assert self.body["error_code"] == self.status
        return self.status, self.body["message"]


def ask(url: str, method: str, path: str, body: Any = None) -> Answer:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data is not None else {}
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, json.loads(found) if found else None, headers)


class Lines(SourceConnector):
    def version(self) -> str:
        return "1"

    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("file", ConfigType.STRING, None, Importance.HIGH, "Where to read.")
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, doc="Where to write.")
            .define("batch.size", ConfigType.INT, 2000, Importance.LOW, "Lines.")
        )


class Sheets(SinkConnector):
    def version(self) -> str:
        return "1"

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("file", ConfigType.STRING, None, Importance.HIGH, "Where to.")


def known() -> Plugins:
    mine = {"Lines": PluginType.SOURCE, "Sheets": PluginType.SINK}
    return Plugins(
        [
            *(Plugin(kind, name, f"{__name__}:{name}") for name, kind in mine.items()),
            *Plugins().all(*set(PluginType) - set(mine.values())),
        ]
    )


def worker(
    bootstrap_servers: str, stage: Stage, *, alone: bool = False, **more: str
) -> ConnectWorker:
    given = properties(bootstrap_servers, **{"listeners": "http://127.0.0.1:0", **more})
    return ConnectWorker(given, alone=alone, spark=_no_spark, start=stage.start, plugins=known())


def _no_spark() -> Any:
    raise AssertionError("nothing here runs on Spark")


Ask = Callable[..., Answer]
