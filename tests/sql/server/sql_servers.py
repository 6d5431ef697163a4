"""SQL servers for tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from ottla.rest.hypercorn_server import HypercornServer
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.run.query_executor import QueryExecutor
from ottla.sql.server.app import make_app
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running(
    cluster: LocalCluster,
    service_id: str,
    *,
    headless: bool = False,
    spark: SparkSession | None = None,
    state_dir: Path | None = None,
    more: Mapping[str, str] = {},
) -> Iterator[str]:
    """Without Spark: a server whose Spark never finishes starting."""
    settings = KsqlConfig(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "ksql.service.id": service_id,
            **({"ksql.streams.state.dir": str(state_dir)} if state_dir else {}),
            **more,
        }
    )
    never = threading.Event()

    def session() -> SparkSession:
        if spark is None:
            never.wait()
        assert spark is not None
        return spark

    engine = Engine(settings, QueryExecutor(settings, session))
    engine.start()
    try:
        with HypercornServer(make_app(engine, headless=headless)) as serving:
            yield serving.url
    finally:
        engine.close()


def ksql(client: httpx.Client, text: str, **fields: Any) -> list[dict[str, Any]]:
    """The results of the statements; an error fails the test."""
    answer = client.post("/ksql", json={"ksql": text, **fields})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def ksql_error(client: httpx.Client, text: str, **fields: Any) -> dict[str, Any]:
    answer = client.post("/ksql", json={"ksql": text, **fields})
    assert answer.status_code >= 400, answer.text
    found: dict[str, Any] = answer.json()
    assert found["error_code"] // 100 == answer.status_code
    return found


def pulled(client: httpx.Client, text: str) -> list[Any]:
    """The rows of a query that ends."""
    answer = client.post("/query-stream", json={"sql": text})
    assert answer.status_code == 200, answer.text
    _, *rows = [json.loads(line) for line in answer.text.splitlines()]
    return rows


def until(found: Callable[[], Any], wanted: Any, patience_s: float = 240.0) -> None:
    deadline = time.monotonic() + patience_s
    while (there := found()) != wanted:
        assert time.monotonic() < deadline, f"{there}, and not {wanted}"
        time.sleep(0.25)
