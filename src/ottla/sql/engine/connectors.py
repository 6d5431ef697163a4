"""Connector statements, which a Connect worker executes.

The worker alone stores connectors; their statements are not in the command topic. It is the one at
`ksql.connect.url`, Ottla's or Kafka's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ottla.client.connect_client import (
    NOT_FOUND,
    ConnectClient,
    ConnectStatusError,
    ConnectWorkerUnreachable,
)
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.types import quoted
from ottla.sql.catalog import close_names
from ottla.sql.engine.connect_client import connect_client
from ottla.sql.engine.connector_configs import connector_config
from ottla.sql.engine.descriptions import DescriptionContext
from ottla.sql.engine.entities import Entity, entity, source_description, warning, with_warnings
from ottla.sql.ksql_config import CONNECT_TIMEOUT_MS, CONNECT_URL, KsqlConfig
from ottla.sql.syntax.statement_mask import CONNECTOR_CLASS
from ottla.sql.syntax.statements import (
    CreateConnector,
    DescribeConnector,
    DropConnector,
    Show,
    Subject,
)

CONNECTOR_SUBJECTS: Final = (
    Subject.CONNECTORS,
    Subject.SOURCE_CONNECTORS,
    Subject.SINK_CONNECTORS,
    Subject.CONNECTOR_PLUGINS,
)
RUNNING: Final = "RUNNING"
UNASSIGNED: Final = "UNASSIGNED"
"""The state of a new connector until a worker reports its status."""

log = logging.getLogger("ottla.sql")


class Connectors:
    """Executes connector statements. Each call blocks until the worker responds, so the server must
    not call it on its event loop."""

    def __init__(self, settings: KsqlConfig) -> None:
        self._settings = settings

    def sandbox(self) -> ConnectorSandbox:
        return ConnectorSandbox(lambda: connect_client(self._settings))

    def create(self, statement: CreateConnector) -> Entity:
        rest = connect_client(self._settings)
        if statement.if_not_exists and _find(statement.name, _names(rest)):
            return warning(statement.text, f"Connector {statement.name} already exists")
        body = {"name": statement.name, "config": connector_config(statement)}
        with connect_error("Failed to create connector"):
            made = rest.ask("POST", "connectors", body=body)
        log.info("Created connector %s", statement.name)
        return with_warnings(
            entity("connector_info", statement.text, info=made), _other_side(statement, made)
        )

    def drop(self, statement: DropConnector) -> Entity:
        rest, name = connect_client(self._settings), statement.name
        with connect_error("Failed to drop connector", lambda: _remedy(rest, name)):
            try:
                rest.ask("DELETE", "connectors", name)
            except ConnectStatusError as error:
                if not statement.if_exists or error.status != NOT_FOUND:
                    raise
                return warning(statement.text, f"Connector '{name}' does not exist.")
        log.info("Dropped connector %s", name)
        return entity("drop_connector", statement.text, connectorName=name)

    def describe(self, statement: DescribeConnector, context: DescriptionContext) -> Entity:
        rest, name = connect_client(self._settings), statement.name
        status, info = _status_and_info(rest, name)
        topics, warnings = _topics(rest, name)
        catalog = context.state.catalog
        described = entity(
            "connector_description",
            statement.text,
            connectorClass=info["config"].get(CONNECTOR_CLASS, ""),
            status=status,
            sources=[
                source_description(source, catalog, None, extended=False, states=context.states)
                for source in catalog.sources.values()
                if source.topic in topics
            ],
            topics=topics,
        )
        return with_warnings(described, warnings)

    def show(self, statement: Show) -> Entity:
        rest = connect_client(self._settings)
        if statement.subject is Subject.CONNECTOR_PLUGINS:
            with connect_error("Failed to list connector plugins"):
                found = rest.get("connector-plugins")
            plugins = [
                _given(className=_class(description), **_type(description)) for description in found
            ]
            return entity("connector_plugins_list", statement.text, connectorsPlugins=plugins)
        side = statement.subject.value.partition(" ")[0].lower()
        wanted = ("source", "sink", "unknown") if side == "connectors" else (side,)
        listed, warnings = _listed(rest)
        shown = [connector for connector in listed if connector.get("type", "unknown") in wanted]
        return with_warnings(entity("connector_list", statement.text, connectors=shown), warnings)


class ConnectorSandbox:
    """Validates the connector statements of a request without executing them."""

    def __init__(self, rest: Callable[[], ConnectClient]) -> None:
        self._connect = rest
        self._rest: ConnectClient | None = None
        self._there: set[str] = set()

    def check(self, statement: CreateConnector | DropConnector) -> None:
        if self._rest is None:
            self._rest = self._connect()
            self._there = set(_names(self._rest))
        if isinstance(statement, CreateConnector):
            self._check_create(self._rest, statement)
        elif statement.name in self._there:
            self._there.remove(statement.name)
        elif not statement.if_exists:
            raise SqlError(
                f"Failed to drop connector: Connector {statement.name} not found",
                remedy=_suggested(statement.name, self._there),
                code=SqlCode.NOT_FOUND,
            )

    def _check_create(self, rest: ConnectClient, statement: CreateConnector) -> None:
        found = _find(statement.name, self._there)
        if found and statement.if_not_exists:
            return
        if found:
            raise SqlError(
                f"Connector {statement.name} already exists",
                remedy=f"DROP CONNECTOR {quoted(found)}; first, or use IF NOT EXISTS.",
                code=SqlCode.CONFLICT,
            )
        errors = _errors_in(rest, connector_config(statement))
        if errors:
            raise SqlError(
                "Validation error: " + "\n".join(errors),
                remedy="SHOW CONNECTOR PLUGINS; lists the worker's classes.",
            )
        self._there.add(statement.name)


# -- configs


def _errors_in(rest: ConnectClient, config: Mapping[str, str]) -> list[str]:
    kind = config.get(CONNECTOR_CLASS)
    if kind is None:
        names = ", ".join(sorted(set(config) - {"name"}))
        return [f"Connector config {{{names}}} contains no connector type"]
    if not kind.strip():
        return ["Connector type cannot be empty"]
    with connect_error("Failed to validate connector"):
        try:
            found = rest.ask("PUT", "connector-plugins", kind, "config", "validate", body=config)
        except ConnectStatusError as error:
            return [str(error)]
    values = [config["value"] for config in found["configs"]]
    return [
        f"{value['name']} - {'. '.join(value['errors'])}" for value in values if value["errors"]
    ]


def _other_side(statement: CreateConnector, made: Mapping[str, Any]) -> list[str]:
    """Connect ignores SOURCE and SINK in the statement; warn if it says the wrong one."""
    side = str(made.get("type", ""))
    if side not in ("source", "sink") or side == statement.kind.lower():
        return []
    return [f"{made['config'].get(CONNECTOR_CLASS)} is a {side} connector and runs as one."]


# -- existing connectors


def _names(rest: ConnectClient) -> list[str]:
    with connect_error("Failed to check for existing connector"):
        return list(rest.get("connectors"))


def _find(name: str, there: Iterable[str]) -> str:
    """The connector of this name. As in ksqlDB the case of letters does not matter."""
    return next((known for known in there if known.upper() == name.upper()), "")


def _listed(rest: ConnectClient) -> tuple[list[dict[str, Any]], list[str]]:
    """All connectors, and warnings. Kafka's list leaves out connectors without a status, so these
    are requested one by one."""
    listed, warnings = [], []
    with connect_error("Failed to list connectors"):
        names = sorted(rest.get("connectors"))
        every = rest.get("connectors", expand=["info", "status"]) if names else {}
        for name in names:
            about = every.get(name) or {}
            try:
                info = about.get("info") or rest.get("connectors", name)
            except ConnectStatusError as error:
                if error.status != NOT_FOUND:  # NOT_FOUND: deleted since the list was made
                    warnings.append(f"Could not describe connector {name}: {error}")
                    listed.append({"name": name, "type": "unknown"})
                continue
            state = _summary(about["status"]) if "status" in about else UNASSIGNED
            kind = {"type": info.get("type"), "className": info["config"].get(CONNECTOR_CLASS)}
            listed.append(_given(name=name, **kind, state=state))
    return listed, warnings


def _summary(status: Mapping[str, Any]) -> str:
    """`RUNNING (2/3 tasks RUNNING)`"""
    state = str(status["connector"]["state"])
    if state != RUNNING:
        return state
    tasks = status["tasks"]
    running = sum(task["state"] == RUNNING for task in tasks)
    word = "WARNING" if tasks and not running else RUNNING
    return f"{word} ({running}/{len(tasks)} tasks RUNNING)"


def _status_and_info(rest: ConnectClient, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    unknown: ConnectStatusError | None = None
    with connect_error("Failed to query connector status", lambda: _remedy(rest, name)):
        try:
            status = rest.get("connectors", name, "status")
        except ConnectStatusError as error:
            if error.status != NOT_FOUND:
                raise
            unknown = error
            status = {"name": name, "connector": {"state": UNASSIGNED, "worker_id": ""}}
        try:
            info = rest.get("connectors", name)
        except ConnectStatusError as error:
            raise unknown or error from None
    if unknown is not None:
        status |= {"tasks": [], "type": info.get("type", "unknown")}
    return status, info


def _topics(rest: ConnectClient, name: str) -> tuple[list[str], list[str]]:
    """The topics of a connector, and warnings. Workers before Kafka 2.5 don't have this list."""
    with connect_error("Could not list related topics"):
        try:
            found = rest.get("connectors", name, "topics")
        except ConnectStatusError as error:
            if error.status == NOT_FOUND:
                return [], []
            return [], [f"Could not list related topics due to error: {error}"]
    return sorted(found.get(name, {}).get("topics", [])), []


def _class(plugin: Mapping[str, Any]) -> str:
    return str(plugin["class"])


def _type(plugin: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": plugin.get("type"), "version": plugin.get("version")}


def _given(**fields: Any) -> dict[str, Any]:
    """Like ksqlDB's REST API, which leaves out nulls."""
    return {name: value for name, value in fields.items() if value is not None}


# -- errors


@contextmanager
def connect_error(what: str, remedy: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn the worker's errors into SqlErrors with its status; `remedy` is for NOT_FOUND."""
    try:
        yield
    except ConnectStatusError as error:
        raise SqlError(
            f"{what}: {error}",
            remedy=remedy() if error.status == NOT_FOUND else "",
            code=error.status * 100 if error.status >= 400 else SqlCode.SERVER_ERROR,
        ) from None
    except ConnectWorkerUnreachable as error:
        raise SqlError(
            str(error),
            remedy=f"`ottla connect worker` starts one; the server's settings {CONNECT_URL} and"
            f" {CONNECT_TIMEOUT_MS} have its address and the timeout.",
            code=SqlCode.SERVER_ERROR,
        ) from None


def _remedy(rest: ConnectClient, name: str) -> str:
    return _suggested(name, _names(rest))


def _suggested(name: str, there: Iterable[str]) -> str:
    """Unquoted names are upper case; suggest the connector whose name differs in case."""
    close = [quoted(close_name) for close_name in close_names(name, there)]
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return "SHOW CONNECTORS; lists all connectors."
