"""The routes of Kafka Connect's REST."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import ottla
from ottla.connect.errors import ConfigException
from ottla.connect.files import initial_target
from ottla.connect.herder.answers import Answers
from ottla.connect.herder.changes import Changes
from ottla.connect.herder.configs import Restart
from ottla.connect.herder.refusals import Elsewhere, Refusal, bad_request, not_found
from ottla.connect.loggers import LEVELS, Loggers
from ottla.connect.rest.forwarding import forward
from ottla.connect.rest.requests import (
    Threads,
    body_of,
    check_json,
    empty,
    error_response,
    json_response,
    object_of,
    texts_of,
)
from ottla.connect.run.states import Target

COMMIT: Final = "unknown"  # what Kafka says where it does not know its own
CLUSTER: Final = "cluster"


class AboutPlugins(Protocol):
    def all(self, *, connectors_only: bool) -> list[dict[str, Any]]: ...

    def config(self, name: str) -> list[dict[str, Any]]: ...

    def validate(self, config: Mapping[str, str]) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Desk:
    """Who answers what. `cluster_id` may wait for the broker."""

    answers: Answers
    changes: Changes
    plugins: AboutPlugins
    loggers: Loggers
    cluster_id: Callable[[], str]
    ready: Callable[[], bool]
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    tls: ssl.SSLContext | None = None
    """For requests that are passed on to another worker."""


Work = Callable[[Request, bytes], Response]
Later = Callable[[Request], Awaitable[Response]]


def blank_app() -> Starlette:
    """Routes come later: a worker must know its port before there is anybody to answer."""
    return Starlette(exception_handlers={HTTPException: _http_error})


def add_routes(app: Starlette, desk: Desk, *, admin: bool = True) -> None:
    """`admin`: whether /admin is served here, too."""
    connectors, around = _Connectors(desk), _Around(desk)
    served = _Served(desk.tls)
    app.router.routes += [
        *served.routes(connectors.table()),
        *served.routes(around.table()),
        *(served.routes(around.admin_table()) if admin else ()),
    ]


class _Served:
    """Every request is worked on in a thread; what another worker must do is passed on."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._threads = Threads()
        self._tls = tls

    def routes(self, table: Mapping[str, Mapping[str, Work]]) -> list[Route]:
        """A slash at the end of a path means nothing."""
        return [
            Route(each, self._endpoint(work), methods=[method])
            for path, methods in table.items()
            for method, work in methods.items()
            for each in ((path, f"{path}/") if path != "/" else (path,))
        ]

    def _endpoint(self, work: Work) -> Later:
        async def answered(request: Request) -> Response:
            try:
                check_json(request)
                body = await body_of(request)
                return await self._threads.run(_worked, work, request, body, self._tls)
            except Exception as error:
                return error_response(error)

        return answered


def _worked(work: Work, request: Request, body: bytes, tls: ssl.SSLContext | None) -> Response:
    try:
        return work(request, body)
    except Elsewhere as elsewhere:
        answer = forward(
            elsewhere,
            method=request.method,
            path=request.scope.get("raw_path", b"").decode() or quote(request.url.path),
            query=request.url.query,
            headers=request.headers,
            body=body,
            tls=tls,
        )
        place = urlsplit(answer.headers.get("location", "")).path
        if place:  # the person asked this worker, and will go on asking it
            answer.headers["location"] = _here(request) + place
        return answer


class _Connectors:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._answers = desk.answers
        self._changes = desk.changes

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
            return json_response(self._answers.expanded(parts))
        return json_response(self._answers.names())

    def _create(self, request: Request, body: bytes) -> Response:
        fields = object_of(body)
        name = str(fields.get("name") or "").strip()
        config = _named(name, texts_of(fields.get("config")))
        told = self._changes.create(name, config, _initial(fields))
        return json_response(told, 201, _location(request, name))

    def _info(self, request: Request, body: bytes) -> Response:
        return json_response(self._answers.info(_name(request)))

    def _delete(self, request: Request, body: bytes) -> Response:
        self._changes.delete(_name(request))
        return empty()

    def _config(self, request: Request, body: bytes) -> Response:
        return json_response(self._answers.config(_name(request)))

    def _put(self, request: Request, body: bytes) -> Response:
        name = _name(request)
        created, told = self._changes.put_config(name, _named(name, texts_of(object_of(body))))
        return json_response(told, *((201, _location(request, name)) if created else (200,)))

    def _patch(self, request: Request, body: bytes) -> Response:
        patch = texts_of(object_of(body))
        return json_response(self._changes.patch_config(_name(request), patch))

    def _status(self, request: Request, body: bytes) -> Response:
        return json_response(self._answers.status(_name(request)))

    def _restart(self, request: Request, body: bytes) -> Response:
        name = _name(request)
        tasks, failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        if tasks or failed:
            return json_response(self._changes.restart(Restart(name, tasks, failed)), 202)
        self._changes.restart_connector(name)
        return empty()

    def _pause(self, request: Request, body: bytes) -> Response:
        self._changes.pause(_name(request))
        return empty(202)

    def _resume(self, request: Request, body: bytes) -> Response:
        self._changes.resume(_name(request))
        return empty(202)

    def _stop(self, request: Request, body: bytes) -> Response:
        self._changes.stop(_name(request))
        return empty()

    def _tasks(self, request: Request, body: bytes) -> Response:
        return json_response(self._answers.task_configs(_name(request)))

    def _task_status(self, request: Request, body: bytes) -> Response:
        task = request.path_params["task"]
        return json_response(self._answers.task_status(_name(request), task))

    def _restart_task(self, request: Request, body: bytes) -> Response:
        self._changes.restart_task(_name(request), request.path_params["task"])
        return empty()

    def _topics(self, request: Request, body: bytes) -> Response:
        self._check_tracking()
        return json_response(self._answers.topics(_name(request)))

    def _reset_topics(self, request: Request, body: bytes) -> Response:
        self._check_tracking()
        if not self._desk.topic_tracking_reset:
            raise Refusal(403, "Topic tracking reset is disabled.")
        self._changes.reset_topics(_name(request))
        return empty(202)

    def _check_tracking(self) -> None:
        if not self._desk.topic_tracking:
            raise Refusal(403, "Topic tracking is disabled.")

    def _offsets(self, request: Request, body: bytes) -> Response:
        return json_response(self._changes.offsets(_name(request)))

    def _alter_offsets(self, request: Request, body: bytes) -> Response:
        entries = object_of(body).get("offsets")
        if not entries:
            raise bad_request(
                "Partitions / offsets need to be provided for an alter offsets request"
            )
        return json_response(self._changes.alter_offsets(_name(request), entries))

    def _reset_offsets(self, request: Request, body: bytes) -> Response:
        return json_response(self._changes.reset_offsets(_name(request)))


class _Around:
    """The worker itself, its plugins, its loggers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def table(self) -> dict[str, dict[str, Work]]:
        plugin = "/connector-plugins/{plugin}/config"
        return {
            "/": {"GET": self._root},
            "/health": {"GET": self._health},
            "/connector-plugins": {"GET": self._plugins},
            plugin: {"GET": self._plugin_config},
            f"{plugin}/validate": {"PUT": self._validate},
        }

    def admin_table(self) -> dict[str, dict[str, Work]]:
        one = "/admin/loggers/{logger}"
        return {
            "/admin/loggers": {"GET": self._loggers},
            one: {"GET": self._logger, "PUT": self._set_level},
        }

    def _root(self, request: Request, body: bytes) -> Response:
        told = {"version": ottla.__version__, "commit": COMMIT}
        return json_response({**told, "kafka_cluster_id": self._desk.cluster_id()})

    def _health(self, request: Request, body: bytes) -> Response:
        if self._desk.ready():
            words = "Worker has completed startup and is ready to handle requests."
            return json_response({"status": "healthy", "message": words})
        told = {"status": "starting", "message": "Worker is still starting up."}
        return json_response(told, 503)

    def _plugins(self, request: Request, body: bytes) -> Response:
        only = request.query_params.get("connectorsOnly", "true").lower() == "true"
        return json_response(self._desk.plugins.all(connectors_only=only))

    def _plugin_config(self, request: Request, body: bytes) -> Response:
        return json_response(self._desk.plugins.config(request.path_params["plugin"]))

    def _validate(self, request: Request, body: bytes) -> Response:
        config = texts_of(object_of(body))
        plugin, given = request.path_params["plugin"], config.get("connector.class")
        if given is not None and not _plain(given).endswith(_plain(plugin)):
            raise bad_request(
                f"Included connector type {given} does not match request type {plugin}"
            )
        return json_response(self._desk.plugins.validate(config))

    def _loggers(self, request: Request, body: bytes) -> Response:
        return json_response(self._desk.loggers.all())

    def _logger(self, request: Request, body: bytes) -> Response:
        name = request.path_params["logger"]
        found = self._desk.loggers.one(name)
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
            self._desk.changes.set_cluster_level(name, str(level))
            return empty()
        return json_response(self._desk.loggers.set(name, str(level)))


def _name(request: Request) -> str:
    return str(request.path_params["connector"])


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() == "true"


def _location(request: Request, name: str) -> dict[str, str]:
    return {"location": f"{_here(request)}/connectors/{quote(name, safe='')}"}


def _here(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _plain(plugin: str) -> str:
    """`FileStreamSink` and `FileStreamSinkConnector` are the same."""
    return plugin.removesuffix("Connector") or plugin


def _named(name: str, config: dict[str, Any]) -> dict[str, Any]:
    given = config.get("name")
    if given is not None and given != name:
        raise bad_request(
            f"Connector name configuration ({given}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return {**config, "name": name}


def _initial(fields: Mapping[str, Any]) -> Target | None:
    try:
        return initial_target(fields, inner=fields.get("config"))
    except ConfigException as error:
        raise bad_request(str(error)) from None


async def _http_error(request: Request, error: Exception) -> Response:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    return error_response(Refusal(error.status_code, f"HTTP {error.status_code} {error.detail}"))
