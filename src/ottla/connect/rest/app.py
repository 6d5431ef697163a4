"""The routes of Kafka Connect's REST API."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import ottla
from ottla.connect.connector_files import initial_target
from ottla.connect.errors import ConfigException
from ottla.connect.herder.config_state import RestartRequest
from ottla.connect.herder.connector_requests import ConnectorRequests
from ottla.connect.herder.connector_views import ConnectorViews
from ottla.connect.herder.rest_exceptions import (
    ConnectRestException,
    RequestTargetException,
    bad_request,
    not_found,
)
from ottla.connect.loggers import LEVELS, Loggers
from ottla.connect.plugin_catalog import PluginCatalog
from ottla.connect.rest.forwarding import forward
from ottla.connect.rest.requests import (
    check_json_request,
    empty,
    error_response,
    json_response,
    object_of,
    texts_of,
    too_large,
)
from ottla.connect.run.connector_status import TargetState
from ottla.rest.blocking_calls import BlockingCallPool
from ottla.rest.request_body import request_body

COMMIT: Final = "unknown"  # as Kafka answers without version information
CLUSTER: Final = "cluster"
THREADS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class RestServices:
    """What the handlers call. `cluster_id` may wait for the broker; `ready` never waits."""

    views: ConnectorViews
    requests: ConnectorRequests
    plugins: PluginCatalog
    loggers: Loggers
    cluster_id: Callable[[], str]
    ready: Callable[[], bool]
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    tls: ssl.SSLContext | None = None
    """For requests that are forwarded to another worker."""


Work = Callable[[Request, bytes], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def blank_app() -> Starlette:
    """Routes are added later: a worker needs its port before the handlers can exist."""
    return Starlette(exception_handlers={HTTPException: _http_error})


def add_routes(app: Starlette, services: RestServices, *, admin: bool = True) -> None:
    """`admin`: whether to serve /admin."""
    connectors, around = _ConnectorsResource(services), _WorkerResource(services)
    served = _ThreadedRoutes(services.tls)
    changes, others = (BlockingCallPool("ottla-connect-rest", THREADS_MAX) for _ in range(2))
    app.router.routes += [
        *served.routes(connectors.table(), others, changes=changes),
        *served.routes(around.table(), others),
        *served.routes(around.health_table()),
        *(served.routes(around.admin_table(), others) if admin else ()),
    ]


class _ThreadedRoutes:
    """Handles requests on threads, and forwards those that another worker must handle.

    Changes of connectors have their own threads: they wait for the end of a rebalance, and other
    requests must get through meanwhile. /health needs no thread, because it never waits.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls

    def routes(
        self,
        table: Mapping[str, Mapping[str, Work]],
        threads: BlockingCallPool | None = None,
        *,
        changes: BlockingCallPool | None = None,
    ) -> list[Route]:
        """`changes`: for all methods but GET. A trailing slash is ignored."""
        return [
            Route(
                route,
                self._endpoint(work, threads if method == "GET" else changes or threads),
                methods=[method],
            )
            for path, methods in table.items()
            for method, work in methods.items()
            for route in ((path, f"{path}/") if path != "/" else (path,))
        ]

    def _endpoint(self, work: Work, threads: BlockingCallPool | None) -> Endpoint:
        async def answered(request: Request) -> Response:
            try:
                check_json_request(request)
                body = await request_body(request, too_large)
                if threads is None:
                    return work(request, body)
                return await threads.run(_handle, work, request, body, self._tls)
            except Exception as error:
                return error_response(error)

        return answered


def _handle(work: Work, request: Request, body: bytes, tls: ssl.SSLContext | None) -> Response:
    try:
        return work(request, body)
    except RequestTargetException as elsewhere:
        answer = forward(
            elsewhere,
            method=request.method,
            path=request.scope.get("raw_path", b"").decode() or quote(request.url.path),
            query=request.url.query,
            headers=request.headers,
            body=body,
            tls=tls,
        )
        location = urlsplit(answer.headers.get("location", "")).path
        if location:  # the client talks to this worker, so Location must name it as well
            answer.headers["location"] = _here(request) + location
        return answer


class _ConnectorsResource:
    def __init__(self, services: RestServices) -> None:
        self._services = services
        self._views = services.views
        self._requests = services.requests

    def table(self) -> dict[str, dict[str, Work]]:
        one = "/connectors/{connector}"
        return {
            "/connectors": {"GET": self._list, "POST": self._create},
            one: {"GET": self._info, "DELETE": self._delete},
            f"{one}/config": {"GET": self._config, "PUT": self._put, "PATCH": self._patch},
            f"{one}/status": {"GET": self._status},
            f"{one}/restart": {"POST": self._restart},
            f"{one}/pause": {"PUT": self._pause},
            f"{one}/resume": {"PUT": self._resume},
            f"{one}/stop": {"PUT": self._stop},
            f"{one}/tasks": {"GET": self._tasks},
            f"{one}/tasks/{{task:int}}/status": {"GET": self._task_status},
            f"{one}/tasks/{{task:int}}/restart": {"POST": self._restart_task},
            f"{one}/topics": {"GET": self._topics},
            f"{one}/topics/reset": {"PUT": self._reset_topics},
            f"{one}/offsets": {
                "GET": self._offsets,
                "PATCH": self._alter_offsets,
                "DELETE": self._reset_offsets,
            },
        }

    def _list(self, request: Request, body: bytes) -> Response:
        parts = request.query_params.getlist("expand")
        if "expand" in request.query_params:
            return json_response(self._views.expanded(parts))
        return json_response(self._views.names())

    def _create(self, request: Request, body: bytes) -> Response:
        fields = object_of(body)
        name = str(fields.get("name") or "").strip()
        config = _named(name, texts_of(fields.get("config")))
        answer = self._requests.create(name, config, _initial(fields))
        return json_response(answer, 201, _location(request, name))

    def _info(self, request: Request, body: bytes) -> Response:
        return json_response(self._views.info(_name(request)))

    def _delete(self, request: Request, body: bytes) -> Response:
        self._requests.delete(_name(request))
        return empty()

    def _config(self, request: Request, body: bytes) -> Response:
        return json_response(self._views.config(_name(request)))

    def _put(self, request: Request, body: bytes) -> Response:
        name = _name(request)
        created, answer = self._requests.put_config(name, _named(name, texts_of(object_of(body))))
        return json_response(answer, *((201, _location(request, name)) if created else (200,)))

    def _patch(self, request: Request, body: bytes) -> Response:
        patch = texts_of(object_of(body))
        return json_response(self._requests.patch_config(_name(request), patch))

    def _status(self, request: Request, body: bytes) -> Response:
        return json_response(self._views.status(_name(request)))

    def _restart(self, request: Request, body: bytes) -> Response:
        name = _name(request)
        tasks, failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        if tasks or failed:
            return json_response(self._requests.restart(RestartRequest(name, tasks, failed)), 202)
        self._requests.restart_connector(name)
        return empty()

    def _pause(self, request: Request, body: bytes) -> Response:
        self._requests.pause(_name(request))
        return empty(202)

    def _resume(self, request: Request, body: bytes) -> Response:
        self._requests.resume(_name(request))
        return empty(202)

    def _stop(self, request: Request, body: bytes) -> Response:
        self._requests.stop(_name(request))
        return empty()

    def _tasks(self, request: Request, body: bytes) -> Response:
        return json_response(self._views.task_configs(_name(request)))

    def _task_status(self, request: Request, body: bytes) -> Response:
        task = request.path_params["task"]
        return json_response(self._views.task_status(_name(request), task))

    def _restart_task(self, request: Request, body: bytes) -> Response:
        self._requests.restart_task(_name(request), request.path_params["task"])
        return empty()

    def _topics(self, request: Request, body: bytes) -> Response:
        self._check_tracking()
        return json_response(self._views.topics(_name(request)))

    def _reset_topics(self, request: Request, body: bytes) -> Response:
        self._check_tracking()
        if not self._services.topic_tracking_reset:
            raise ConnectRestException(403, "Topic tracking reset is disabled.")
        self._requests.reset_topics(_name(request))
        return empty(202)

    def _check_tracking(self) -> None:
        if not self._services.topic_tracking:
            raise ConnectRestException(403, "Topic tracking is disabled.")

    def _offsets(self, request: Request, body: bytes) -> Response:
        return json_response(self._requests.offsets(_name(request)))

    def _alter_offsets(self, request: Request, body: bytes) -> Response:
        entries = object_of(body).get("offsets")
        if not entries:
            raise bad_request(
                "Partitions / offsets need to be provided for an alter offsets request"
            )
        return json_response(self._requests.alter_offsets(_name(request), entries))

    def _reset_offsets(self, request: Request, body: bytes) -> Response:
        return json_response(self._requests.reset_offsets(_name(request)))


class _WorkerResource:
    """The worker itself, its plugins and loggers."""

    def __init__(self, services: RestServices) -> None:
        self._services = services

    def table(self) -> dict[str, dict[str, Work]]:
        plugin = "/connector-plugins/{plugin}/config"
        return {
            "/": {"GET": self._root},
            "/connector-plugins": {"GET": self._plugins},
            plugin: {"GET": self._plugin_config},
            f"{plugin}/validate": {"PUT": self._validate},
        }

    def health_table(self) -> dict[str, dict[str, Work]]:
        return {"/health": {"GET": self._health}}

    def admin_table(self) -> dict[str, dict[str, Work]]:
        one = "/admin/loggers/{logger}"
        return {
            "/admin/loggers": {"GET": self._loggers},
            one: {"GET": self._logger, "PUT": self._set_level},
        }

    def _root(self, request: Request, body: bytes) -> Response:
        answer = {"version": ottla.__version__, "commit": COMMIT}
        return json_response({**answer, "kafka_cluster_id": self._services.cluster_id()})

    def _health(self, request: Request, body: bytes) -> Response:
        if self._services.ready():
            words = "Worker has completed startup and is ready to handle requests."
            return json_response({"status": "healthy", "message": words})
        answer = {"status": "starting", "message": "Worker is still starting up."}
        return json_response(answer, 503)

    def _plugins(self, request: Request, body: bytes) -> Response:
        only = request.query_params.get("connectorsOnly", "true").lower() == "true"
        return json_response(self._services.plugins.all(connectors_only=only))

    def _plugin_config(self, request: Request, body: bytes) -> Response:
        return json_response(self._services.plugins.config(request.path_params["plugin"]))

    def _validate(self, request: Request, body: bytes) -> Response:
        config = texts_of(object_of(body))
        plugin, given = request.path_params["plugin"], config.get("connector.class")
        if given is not None and not _plain(given).endswith(_plain(plugin)):
            raise bad_request(
                f"Included connector type {given} does not match request type {plugin}"
            )
        return json_response(self._services.plugins.validate(config))

    def _loggers(self, request: Request, body: bytes) -> Response:
        return json_response(self._services.loggers.all())

    def _logger(self, request: Request, body: bytes) -> Response:
        name = request.path_params["logger"]
        found = self._services.loggers.one(name)
        if found is None:
            raise not_found(f"Logger {name} not found.")
        return json_response(found)

    def _set_level(self, request: Request, body: bytes) -> Response:
        name, level = request.path_params["logger"], object_of(body).get("level")
        if level is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        if str(level).upper() not in LEVELS:
            raise not_found(f"invalid log level '{level}'.")
        if request.query_params.get("scope", "").lower() == CLUSTER:
            self._services.requests.set_cluster_level(name, str(level))
            return empty()
        return json_response(self._services.loggers.set(name, str(level)))


def _name(request: Request) -> str:
    return str(request.path_params["connector"])


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() == "true"


def _location(request: Request, name: str) -> dict[str, str]:
    return {"location": f"{_here(request)}/connectors/{quote(name, safe='')}"}


def _here(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _plain(plugin: str) -> str:
    """The name without the optional suffix: FileStreamSink for FileStreamSinkConnector."""
    return plugin.removesuffix("Connector") or plugin


def _named(name: str, config: dict[str, Any]) -> dict[str, Any]:
    given = config.get("name")
    if given is not None and given != name:
        raise bad_request(
            f"Connector name configuration ({given}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return {**config, "name": name}


def _initial(fields: Mapping[str, Any]) -> TargetState | None:
    try:
        return initial_target(fields, inner=fields.get("config"))
    except ConfigException as error:
        raise bad_request(str(error)) from None


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown path or method."""
    assert isinstance(error, HTTPException)
    return error_response(
        ConnectRestException(error.status_code, f"HTTP {error.status_code} {error.detail}")
    )
