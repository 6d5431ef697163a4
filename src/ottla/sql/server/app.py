"""The application: routes, and responses about the server itself."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import ottla
from ottla.errors import KafkaError
from ottla.rest.blocking_calls import BlockingCallPool
from ottla.rest.guard import caller_of
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.types import quoted
from ottla.sql.engine.command_runner import CommandStatusCode
from ottla.sql.engine.engine import Engine
from ottla.sql.engine.entities import current_status
from ottla.sql.engine.state_changes import EngineState
from ottla.sql.ksql_config import PUSH_QUERIES_MAX, check_property
from ottla.sql.server.access import check_statements
from ottla.sql.server.inserts import inserts_stream
from ottla.sql.server.query_streams import QueryStreams, old_query, query_stream, websocket_query
from ottla.sql.server.requests import (
    error_response,
    json_request,
    json_response,
    mapping_in,
    text_in,
)

THREAD_NAME: Final = "ottla-sql-rest"
THREADS_MAX: Final = 64
STATUS_THREADS_MAX: Final = 2
CLUSTER_ID_S: Final = 60.0  # how long the cluster id is cached
HEADLESS: Final = (
    "The server is in headless mode: it only executes the statements of its queries file."
)

Handler = Callable[[Request], Awaitable[Response]]


def make_app(engine: Engine, *, headless: bool = False) -> Starlette:
    """The application. `headless`: refuse statements and queries, but show what is running."""
    return _Server(engine, headless).app()


class _Server:
    def __init__(self, engine: Engine, headless: bool) -> None:
        self._engine = engine
        self._headless = headless
        self._threads = BlockingCallPool(THREAD_NAME, THREADS_MAX)
        # Statements may wait for long, and /info and /healthcheck must get through meanwhile.
        self._status_threads = BlockingCallPool(THREAD_NAME, STATUS_THREADS_MAX)
        limit = int(engine.settings.get(PUSH_QUERIES_MAX))
        self._streams = QueryStreams(engine, self._threads, limit)
        self._cluster_id = ("", 0.0)

    def app(self) -> Starlette:
        post, get = ["POST"], ["GET"]
        return Starlette(
            routes=[
                Route("/", lambda request: RedirectResponse("/info", 307), methods=get),
                self._route("/ksql", self._ksql, post, interactive=True),
                self._route("/query-stream", self._query_stream, post, interactive=True),
                self._route("/query", self._query, post, interactive=True),
                self._route("/inserts-stream", self._inserts, post, interactive=True),
                self._route("/close-query", self._close_query, post, interactive=True),
                self._route("/ksql/terminate", self._terminate, post, interactive=True),
                self._route("/info", self._info, get),
                self._route("/v1/metadata", self._metadata, get),
                self._route("/v1/metadata/id", self._metadata_id, get),
                self._route("/healthcheck", self._healthcheck, get),
                self._route("/clusterStatus", self._cluster_status, get),
                self._route("/status", self._statuses, get),
                self._route("/status/{type}/{entity:path}/{action}", self._status, get),
                self._route("/is_valid_property/{name}", self._is_valid_property, get),
                WebSocketRoute("/ws/query", self._websocket),
            ],
            exception_handlers={HTTPException: _http_error},
        )

    def _route(
        self, path: str, handler: Handler, methods: list[str], *, interactive: bool = False
    ) -> Route:
        async def answered(request: Request) -> Response:
            try:
                if interactive and self._headless:
                    raise SqlError(
                        HEADLESS,
                        remedy="Change the file and start the server again.",
                        code=SqlCode.NOT_FOUND,
                    )
                return await handler(request)
            except Exception as error:
                return error_response(error)

        return Route(path, answered, methods=methods)

    # Statements and rows

    async def _ksql(self, request: Request) -> Response:
        fields = await json_request(request)
        text = text_in(fields, "ksql", "sql")
        after = fields.get("commandSequenceNumber")

        def work() -> list[dict[str, Any]]:
            return self._engine.execute(
                text,
                mapping_in(fields, "streamsProperties", "properties"),
                mapping_in(fields, "sessionVariables"),
                after=after if isinstance(after, int) else -1,
                check=functools.partial(check_statements, caller_of(request.scope)),
            )

        try:
            return json_response(await self._threads.run(work), request)
        except (SqlError, KafkaError) as error:
            return error_response(error, text)

    async def _query_stream(self, request: Request) -> Response:
        return await query_stream(request, self._streams)

    async def _query(self, request: Request) -> Response:
        return await old_query(request, self._streams)

    async def _inserts(self, request: Request) -> Response:
        return await inserts_stream(request, self._engine, self._threads)

    async def _websocket(self, socket: WebSocket) -> None:
        if self._headless:
            await socket.close()
            return
        await websocket_query(socket, self._streams, self._threads)

    async def _close_query(self, request: Request) -> Response:
        query_id = text_in(await json_request(request), "queryId")
        if not await self._threads.run(self._engine.close_query, query_id):
            raise SqlError(
                f"No query with id {query_id}",
                remedy="It has ended, or runs on another server.",
                code=SqlCode.BAD_REQUEST,
            )
        return json_response({})

    async def _terminate(self, request: Request) -> Response:
        """Terminate all queries, drop all sources, and delete the topics that the request names."""
        fields = await json_request(request, b"{}")
        names = [str(pattern) for pattern in fields.get("deleteTopicList") or ()]
        number = await self._threads.run(_terminate_all, self._engine, names)
        status = current_status(
            "TERMINATE CLUSTER;",
            command_id="terminate/CLUSTER/execute",
            status=CommandStatusCode.SUCCESS,
            message="All queries are terminated, all streams and tables dropped.",
            number=number,
        )
        return json_response([status], request)

    # The server itself

    async def _info(self, request: Request) -> Response:
        return json_response(
            {
                "KsqlServerInfo": {
                    "version": ottla.__version__,
                    "kafkaClusterId": await self._kafka_cluster_id(),
                    "ksqlServiceId": self._engine.settings.service_id,
                    "serverStatus": self._server_status(),
                }
            },
            request,
        )

    async def _metadata(self, request: Request) -> Response:
        scope = {
            "path": [],
            "clusters": {
                "kafka-cluster": await self._kafka_cluster_id(),
                "ksql-cluster": self._engine.settings.service_id,
            },
        }
        return json_response({"version": ottla.__version__, "scope": scope}, request)

    async def _metadata_id(self, request: Request) -> Response:
        clusters = {
            "kafka-cluster": await self._kafka_cluster_id(),
            "ksql-cluster": self._engine.settings.service_id,
        }
        return json_response({"id": "", "scope": {"path": [], "clusters": clusters}}, request)

    def _server_status(self) -> str:
        command_runner = self._engine.command_runner
        if not command_runner.replayed.is_set():
            return "INITIALIZING"
        return "DEGRADED" if command_runner.degraded else "RUNNING"

    async def _kafka_cluster_id(self) -> str:
        found, until = self._cluster_id
        if time.monotonic() < until:
            return found
        try:
            found = await self._status_threads.run(self._engine.cluster.id)
        except (KafkaError, OSError):
            return found
        self._cluster_id = (found, time.monotonic() + CLUSTER_ID_S)
        return found

    async def _healthcheck(self, request: Request) -> Response:
        """Healthy even while Spark is starting: statements work, and queries start afterwards."""
        engine = self._engine
        kafka = await self._status_threads.run(engine.cluster.reachable)
        replayed = engine.command_runner.replayed.is_set()
        degraded = engine.command_runner.degraded
        spark = engine.workers.spark_state() if engine.workers else "none"
        details: dict[str, Any] = {
            "metastore": {"isHealthy": replayed},
            "kafka": {"isHealthy": kafka},
            "commandRunner": {
                "isHealthy": replayed and not engine.command_runner.trouble,
                "status": "DEGRADED" if degraded else "RUNNING",
                "failedCommands": [
                    {"number": number, "statement": command.statement, "cause": command.message}
                    for number, command in degraded
                ],
            },
            "spark": {"isHealthy": spark in ("starting", "ready", "none"), "state": spark},
        }
        healthy = all(detail["isHealthy"] for detail in details.values())
        state = "READY" if healthy and spark == "ready" else "NOT_READY"
        answer = {
            "isHealthy": healthy,
            "details": details,
            "serverState": state,
            "openQueries": engine.open_queries,
        }
        return json_response(answer, request, 200 if healthy else 503)

    async def _cluster_status(self, request: Request) -> Response:
        now_ms = int(time.time() * 1000)
        queries = self._engine.query_facts()
        this = {
            "hostAlive": True,
            "lastStatusUpdateMs": now_ms,
            "activeStandbyPerQuery": {
                id_: {
                    "activeStores": [],
                    "activePartitions": [],
                    "standByStores": [],
                    "standByPartitions": [],
                    "state": query.state,
                }
                for id_, query in queries.items()
            },
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now_ms},
        }
        return json_response({"clusterStatus": {self._engine.host: this}}, request)

    async def _statuses(self, request: Request) -> Response:
        found = {
            status.command_id: status.outcome
            for status in self._engine.command_runner.statuses()
            if status.command_id
        }
        return json_response({"commandStatuses": found}, request)

    async def _status(self, request: Request) -> Response:
        at = request.path_params
        wanted = f"{at['type']}/{at['entity']}/{at['action']}"
        found = [
            status
            for status in self._engine.command_runner.statuses()
            if status.command_id.replace("`", "") == wanted.replace("`", "")
        ]
        if not found:
            raise SqlError(
                f"Command not found: {wanted}", remedy="GET /status.", code=SqlCode.NOT_FOUND
            )
        last = found[-1]
        return json_response(
            {"status": last.outcome, "message": last.message, "queryId": last.query_id or None},
            request,
        )

    async def _is_valid_property(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            check_property(name, request.query_params.get("value"))
        except SqlError as error:
            error.code = SqlCode.BAD_REQUEST
            raise
        return json_response(True, request)


def _terminate_all(engine: Engine, topics: list[str]) -> int:
    """Drop sources without dependents until none is left; return the number of the last command.

    As in ksqlDB only topics of CREATE ... AS SELECT are deleted, because others belong to their
    producers. If deleting a topic fails, the rest is dropped all the same.
    """
    engine.execute("TERMINATE ALL;")
    failures: list[SqlError] = []
    while names := _droppable(engine.state):
        for name in names:
            source = engine.state.catalog.sources[name]
            deletes = bool(source.query_id) and _named(source.topic, topics)
            try:
                engine.execute(
                    f"DROP {source.kind} {quoted(name)}{' DELETE TOPIC' if deletes else ''};"
                )
            except SqlError as error:
                if name in engine.state.catalog.sources:
                    raise  # a retry would fail forever
                failures.append(error)
    for name in engine.state.catalog.types:
        engine.execute(f"DROP TYPE {quoted(name)};")
    if failures:
        raise failures[0]
    return engine.state.position


def _droppable(state: EngineState) -> list[str]:
    return [name for name in state.catalog.sources if not state.catalog.built_on(name)]


def _named(topic: str, patterns: list[str]) -> bool:
    """True if a pattern matches; as in ksqlDB patterns are regular expressions."""
    import re

    return any(re.fullmatch(pattern, topic) for pattern in patterns)


async def _http_error(request: Request, error: Exception) -> Response:
    """The response for an unknown path or method."""
    assert isinstance(error, HTTPException)
    await asyncio.sleep(0)
    body = {
        "@type": "generic_error",
        "error_code": error.status_code * 100,
        "message": f"HTTP {error.status_code} {error.detail}: {request.method} {request.url.path}",
    }
    return json_response(body, request, error.status_code)
