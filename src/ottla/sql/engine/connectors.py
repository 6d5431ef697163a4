"""Connector statements: asked of a Connect worker, and kept by it alone.

They are in no command topic. `ksql.connect.url` says where the worker is; ours or Kafka's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ottla.client.connect_worker import NOT_FOUND, Refused, Rest, Unreachable
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.types import quoted
from ottla.sql.catalog import close_names
from ottla.sql.engine.answers import Asked
from ottla.sql.engine.connect_settings import rest_of
from ottla.sql.engine.connector_configs import config_of
from ottla.sql.engine.entities import (
    Entity,
    entity,
    source_description,
    warning,
    with_warnings,
)
from ottla.sql.settings import CONNECT_TIMEOUT_MS, CONNECT_URL, Settings
from ottla.sql.syntax.masking import CONNECTOR_CLASS
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
"""The state of a connector that was made just now: no worker has told of it yet."""

log = logging.getLogger("ottla.sql")


class Connectors:
    """Any thread may ask; each statement waits for the worker, never on the loop of the server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rehearsal(self) -> Rehearsal:
        return Rehearsal(lambda: rest_of(self._settings))

    def create(self, statement: CreateConnector) -> Entity:
        rest = rest_of(self._settings)
        if statement.if_not_exists and _find(statement.name, _names(rest)):
            return warning(statement.text, f"Connector {statement.name} already exists")
        body = {"name": statement.name, "config": config_of(statement)}
        with told("Failed to create connector"):
            made = rest.ask("POST", "connectors", body=body)
        log.info("connector %s is made", statement.name)
        return with_warnings(
            entity("connector_info", statement.text, info=made), _other_side(statement, made)
        )

    def drop(self, statement: DropConnector) -> Entity:
        rest, name = rest_of(self._settings), statement.name
        with told("Failed to drop connector", lambda: _remedy(rest, name)):
            try:
                rest.ask("DELETE", "connectors", name)
            except Refused as error:
                if not statement.if_exists or error.status != NOT_FOUND:
                    raise
                return warning(statement.text, f"Connector '{name}' does not exist.")
        log.info("connector %s is dropped", name)
        return entity("drop_connector", statement.text, connectorName=name)

    def describe(self, statement: DescribeConnector, asked: Asked) -> Entity:
        rest, name = rest_of(self._settings), statement.name
        status, info = _status_and_info(rest, name)
        topics, warnings = _topics(rest, name)
        catalog = asked.state.catalog
        described = entity(
            "connector_description",
            statement.text,
            connectorClass=info["config"].get(CONNECTOR_CLASS, ""),
            status=status,
            sources=[
                source_description(each, catalog, None, extended=False, states=asked.states)
                for each in catalog.sources.values()
                if each.topic in topics
            ],
            topics=topics,
        )
        return with_warnings(described, warnings)

    def show(self, statement: Show) -> Entity:
        rest = rest_of(self._settings)
        if statement.subject is Subject.CONNECTOR_PLUGINS:
            with told("Failed to list connector plugins"):
                found = rest.get("connector-plugins")
            plugins = [_given(className=_class(each), **_type(each)) for each in found]
            return entity("connector_plugins_list", statement.text, connectorsPlugins=plugins)
        side = statement.subject.value.partition(" ")[0].lower()
        wanted = ("source", "sink", "unknown") if side == "connectors" else (side,)
        listed, warnings = _listed(rest)
        shown = [each for each in listed if each.get("type", "unknown") in wanted]
        return with_warnings(entity("connector_list", statement.text, connectors=shown), warnings)


class Rehearsal:
    """Which connectors there would be, had the statements so far been carried out."""

    def __init__(self, rest: Callable[[], Rest]) -> None:
        self._connect = rest
        self._rest: Rest | None = None
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

    def _check_create(self, rest: Rest, statement: CreateConnector) -> None:
        found = _find(statement.name, self._there)
        if found and statement.if_not_exists:
            return
        if found:
            raise SqlError(
                f"Connector {statement.name} already exists",
                remedy=f"DROP CONNECTOR {quoted(found)}; first, or say IF NOT EXISTS.",
                code=SqlCode.CONFLICT,
            )
        errors = _errors_in(rest, config_of(statement))
        if errors:
            raise SqlError(
                "Validation error: " + "\n".join(errors),
                remedy="SHOW CONNECTOR PLUGINS; lists the classes that the worker has.",
            )
        self._there.add(statement.name)


# -- configs


def _errors_in(rest: Rest, config: Mapping[str, str]) -> list[str]:
    kind = config.get(CONNECTOR_CLASS)
    if kind is None:
        names = ", ".join(sorted(set(config) - {"name"}))
        return [f"Connector config {{{names}}} contains no connector type"]
    if not kind.strip():
        return ["Connector type cannot be empty"]
    with told("Failed to validate connector"):
        try:
            found = rest.ask("PUT", "connector-plugins", kind, "config", "validate", body=config)
        except Refused as error:
            return [str(error)]
    values = [each["value"] for each in found["configs"]]
    return [f"{each['name']} - {'. '.join(each['errors'])}" for each in values if each["errors"]]


def _other_side(statement: CreateConnector, made: Mapping[str, Any]) -> list[str]:
    """Connect does not care for SOURCE or SINK; a person who wrote the other one may."""
    side = str(made.get("type", ""))
    if side not in ("source", "sink") or side == statement.kind.lower():
        return []
    return [f"{made['config'].get(CONNECTOR_CLASS)} is a {side}, and works as one."]


# -- connectors that there are


def _names(rest: Rest) -> list[str]:
    with told("Failed to check for existing connector"):
        return list(rest.get("connectors"))


def _find(name: str, there: Iterable[str]) -> str:
    """As ksqlDB does: a name that differs in its case alone is taken, too."""
    return next((each for each in there if each.upper() == name.upper()), "")


def _listed(rest: Rest) -> tuple[list[dict[str, Any]], list[str]]:
    """Each connector, and what could not be found out. Of those that no worker has told of yet
    Kafka's list of all says nothing: they are asked for one by one."""
    listed, warnings = [], []
    with told("Failed to list connectors"):
        names = sorted(rest.get("connectors"))
        every = rest.get("connectors", expand=["info", "status"]) if names else {}
        for name in names:
            about = every.get(name) or {}
            try:
                info = about.get("info") or rest.get("connectors", name)
            except Refused as error:
                if error.status != NOT_FOUND:  # else it was deleted just now
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
    running = sum(each["state"] == RUNNING for each in tasks)
    word = "WARNING" if tasks and not running else RUNNING
    return f"{word} ({running}/{len(tasks)} tasks RUNNING)"


def _status_and_info(rest: Rest, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    unknown: Refused | None = None
    with told("Failed to query connector status", lambda: _remedy(rest, name)):
        try:
            status = rest.get("connectors", name, "status")
        except Refused as error:
            if error.status != NOT_FOUND:
                raise
            unknown = error
            status = {"name": name, "connector": {"state": UNASSIGNED, "worker_id": ""}}
        try:
            info = rest.get("connectors", name)
        except Refused as error:
            raise unknown or error from None
    if unknown is not None:
        status |= {"tasks": [], "type": info.get("type", "unknown")}
    return status, info


def _topics(rest: Rest, name: str) -> tuple[list[str], list[str]]:
    """What it reads or writes; and why that is not known. Workers of old have no such list."""
    with told("Could not list related topics"):
        try:
            found = rest.get("connectors", name, "topics")
        except Refused as error:
            if error.status == NOT_FOUND:
                return [], []
            return [], [f"Could not list related topics due to error: {error}"]
    return sorted(found.get(name, {}).get("topics", [])), []


def _class(plugin: Mapping[str, Any]) -> str:
    return str(plugin["class"])


def _type(plugin: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": plugin.get("type"), "version": plugin.get("version")}


def _given(**fields: Any) -> dict[str, Any]:
    """ksqlDB leaves out what is null."""
    return {name: value for name, value in fields.items() if value is not None}


# -- what goes wrong


@contextmanager
def told(what: str, remedy: Callable[[], str] = lambda: "") -> Iterator[None]:
    """The worker's refusals as SQL's errors, with its status; `remedy` is for what is not there."""
    try:
        yield
    except Refused as error:
        raise SqlError(
            f"{what}: {error}",
            remedy=remedy() if error.status == NOT_FOUND else "",
            code=error.status * 100 if error.status >= 400 else SqlCode.SERVER_ERROR,
        ) from None
    except Unreachable as error:
        raise SqlError(
            str(error),
            remedy=f"`ottla connect worker` starts one; the server's settings {CONNECT_URL} and"
            f" {CONNECT_TIMEOUT_MS} say where it is, and how long it may take.",
            code=SqlCode.SERVER_ERROR,
        ) from None


def _remedy(rest: Rest, name: str) -> str:
    return _suggested(name, _names(rest))


def _suggested(name: str, there: Iterable[str]) -> str:
    """A name without quotes is in upper case, and connectors' names often are not."""
    close = [quoted(each) for each in close_names(name, there)]
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return "SHOW CONNECTORS; lists those there are."
