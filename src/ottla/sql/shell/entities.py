"""Prints entities, the responses of a server; each kind has a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.markup import escape

from ottla.rows.types import SqlType, quoted
from ottla.sql.shell.client import Entity
from ottla.sql.shell.connectors import (
    print_connector_description,
    print_created_connector,
    print_dropped_connector,
)
from ottla.sql.shell.screen import OutputFormat, Screen

WAITING: Final = ("STARTING", "STANDBY")


def print_entity(screen: Screen, entity: Entity) -> None:
    if screen.output is OutputFormat.JSON:
        screen.json(entity)
        return
    kind = str(entity.get("@type", ""))
    write = _WRITERS.get(kind)
    if write is not None:
        write(screen, entity)
    else:
        screen.json({name: value for name, value in entity.items() if name != "statementText"})
    for warning in entity.get("warnings") or ():
        screen.say(f"[yellow]warning[/] {escape(str(warning.get('message', warning)))}")


def type_text(schema: Mapping[str, Any] | None) -> str:
    """A type of the REST API as text: `ARRAY<INTEGER>`."""
    if not schema:
        return ""
    try:
        return str(SqlType.from_json(dict(schema)))
    except (KeyError, ValueError):
        return str(schema.get("type", schema))


def _listed(
    field: str, title: str, columns: Mapping[str, str | Callable[[Any], Any]]
) -> Callable[[Screen, Entity], None]:
    """A printer of a table with a row for each element; a column is a field or a function."""

    def write(screen: Screen, entity: Entity) -> None:
        found: Sequence[Any] = entity.get(field) or ()
        if not found:
            screen.note(f"There are no {title} yet.")
            return
        rows = [
            [element.get(get) if isinstance(get, str) else get(element) for get in columns.values()]
            for element in found
        ]
        screen.table(list(columns), rows)

    return write


def _status(screen: Screen, entity: Entity) -> None:
    status = entity.get("commandStatus") or {}
    message, query_id = str(status.get("message", "")), str(status.get("queryId") or "")
    query = "" if query_id in message else f" [dim]{escape(query_id)}[/]"
    good = status.get("status") in ("SUCCESS", "QUEUED", "RUNNING", "EXECUTING")
    mark = "[green]done[/]" if good else f"[red]{escape(str(status.get('status')))}[/]"
    screen.say(f"{mark} {escape(message)}{query}")


def _message(screen: Screen, entity: Entity) -> None:
    screen.say(escape(str(entity.get("message", ""))))


def _asserted(screen: Screen, entity: Entity) -> None:
    there = "exists" if entity.get("exists") else "does not exist"
    screen.say(escape(f"Topic {entity.get('topicName', '')} {there}."))


def _asserted_schema(screen: Screen, entity: Entity) -> None:
    there = "exists" if entity.get("exists") else "does not exist"
    named = [entity["subject"]] if entity.get("subject") else []
    named += [f"id {entity['id']}"] if entity.get("id") is not None else []
    screen.say(escape(f"Schema {' '.join(named)} {there}."))


def _queries(screen: Screen, entity: Entity) -> None:
    found = entity.get("queries") or []
    if not found:
        screen.note("There are no queries yet.")
        return
    rows = [
        [
            element.get("id"),
            element.get("queryType", ""),
            element.get("state") or " ".join(element.get("statusCount") or {}),
            ", ".join(element.get("sinks") or ()),
            " ".join(str(element.get("queryString", "")).split()),
        ]
        for element in found
    ]
    screen.table(["query", "type", "state", "into", "statement"], rows)
    for element in found:
        if element.get("cause"):
            color = "yellow" if element.get("state") in WAITING else "red"
            screen.say(f"[{color}]{escape(str(element['id']))}[/] {escape(str(element['cause']))}")
    screen.note("EXPLAIN <query>; shows details.")


def _types(screen: Screen, entity: Entity) -> None:
    found = entity.get("types") or {}
    if not found:
        screen.note("There are no custom types yet.")
        return
    screen.table(["type", "is"], [[name, type_text(type_)] for name, type_ in found.items()])


def _source(screen: Screen, entity: Entity) -> None:
    _description(screen, entity["sourceDescription"])


def _sources(screen: Screen, entity: Entity) -> None:
    for source in entity.get("sourceDescriptions") or ():
        _description(screen, source)


def _description(screen: Screen, source: Mapping[str, Any]) -> None:
    screen.say(f"[bold]{escape(quoted(str(source['name'])))}[/] [dim]{source.get('type', '')}[/]")
    _fields(screen, source.get("fields") or (), table=source.get("type") == "TABLE")
    if not source.get("extended"):
        return
    facts = {
        "topic": source.get("topic"),
        "key format": source.get("keyFormat"),
        "value format": source.get("valueFormat"),
        "partitions": source.get("partitions"),
        "replication": source.get("replication"),
        "timestamp column": source.get("timestamp"),
        "window": source.get("windowType"),
        "statement": source.get("statement"),
        "statistics": source.get("statistics"),
        "errors": source.get("errorStats"),
    }
    screen.facts(facts)
    for word, field in (("read by", "readQueries"), ("written by", "writeQueries")):
        for query in source.get(field) or ():
            text = " ".join(str(query.get("queryString", "")).split())
            screen.say(f"{word} [cyan]{escape(str(query.get('id')))}[/] [dim]{escape(text)}[/]")


def _fields(screen: Screen, fields: Sequence[Mapping[str, Any]], *, table: bool) -> None:
    keys = {"KEY": "primary key" if table else "key", "HEADER": "header"}
    rows = [
        [
            quoted(str(field["name"])),
            type_text(field.get("schema")),
            keys.get(str(field.get("type")), ""),
        ]
        for field in fields
    ]
    screen.table(["column", "type", ""], rows)


def _query(screen: Screen, entity: Entity) -> None:
    _query_description(screen, entity["queryDescription"])


def _query_descriptions(screen: Screen, entity: Entity) -> None:
    for query in entity.get("queryDescriptions") or ():
        _query_description(screen, query)


def _query_description(screen: Screen, query: Mapping[str, Any]) -> None:
    state = f" [dim]{query['state']}[/]" if query.get("state") else ""
    screen.say(f"[bold]{escape(str(query.get('id') or 'query'))}[/]{state}")
    screen.say(escape(str(query.get("statementText", ""))))
    _fields(screen, query.get("fields") or (), table=False)
    facts = {
        "reads": ", ".join(query.get("sources") or ()),
        "writes": ", ".join(query.get("sinks") or ()),
        "window": query.get("windowType"),
        "properties": query.get("overriddenProperties"),
        "progress": _progress(query.get("progress") or {}),
        "waits": query.get("cause") if query.get("state") in WAITING else "",
    }
    screen.facts(facts)
    stages, plan = str(query.get("topology") or ""), str(query.get("executionPlan") or "")
    if stages:
        screen.say(f"[bold]stages[/]\n{escape(stages)}")
    if plan and plan not in stages:
        screen.say(f"[bold]plan[/]\n{escape(plan)}")
    for topic in query.get("unreadable") or ():
        screen.say(f"[yellow]left out[/] {escape(str(topic))}")
    for error in query.get("queryErrors") or ():
        screen.say(f"[red]failed[/] {escape(str(error.get('errorMessage', error)))}")


def _progress(progress: Mapping[str, Any]) -> str:
    """The progress of the last batch: `rows 12, lag 0, rows/s 3.5, batch ms 102`."""
    words = {"rowsPerSecond": "rows/s", "batchMs": "batch ms"}
    return ", ".join(f"{words.get(name, name)} {number}" for name, number in progress.items())


def _function(screen: Screen, entity: Entity) -> None:
    screen.say(f"[bold]{escape(str(entity['name']))}[/] [dim]{entity.get('type', '')}[/]")
    screen.say(escape(str(entity.get("description", ""))))
    for function in entity.get("functions") or ():
        arguments = ", ".join(_argument(argument) for argument in function.get("arguments") or ())
        screen.say(
            f"  [cyan]{escape(str(entity['name']))}[/]({escape(arguments)})"
            f" -> {escape(str(function.get('returnType', '')))}"
        )


def _argument(argument: Mapping[str, Any]) -> str:
    dots = " ..." if argument.get("isVariadic") else ""
    return f"{argument.get('name', '')} {argument.get('type', '')}{dots}".strip()


_SOURCES: Final[dict[str, str | Callable[[Any], Any]]] = {
    "name": lambda row: quoted(str(row["name"])),
    "topic": "topic",
    "key format": "keyFormat",
    "value format": "valueFormat",
    "windowed": "isWindowed",
}
_TOPICS: Final[dict[str, str | Callable[[Any], Any]]] = {
    "topic": "name",
    "partitions": lambda topic: len(topic.get("replicaInfo") or ()),
    "replicas": lambda topic: max(topic.get("replicaInfo") or [0]),
}
_WRITERS: Final[Mapping[str, Callable[[Screen, Entity], None]]] = {
    "currentStatus": _status,
    "warning_entity": _message,
    "streams": _listed("streams", "streams", _SOURCES),
    "tables": _listed("tables", "tables", _SOURCES),
    "kafka_topics": _listed("topics", "topics", _TOPICS),
    "kafka_topics_extended": _listed(
        "topics",
        "topics",
        {**_TOPICS, "consumers": "consumerCount", "groups": "consumerGroupCount"},
    ),
    "assert_topic": _asserted,
    "assert_schema": _asserted_schema,
    "queries": _queries,
    "function_names": _listed(
        "functions", "functions", {"function": "name", "type": "type", "category": "category"}
    ),
    "describe_function": _function,
    "properties": _listed(
        "properties", "properties", {"property": "name", "value": "value", "scope": "scope"}
    ),
    "variables": _listed("variables", "variables", {"variable": "name", "value": "value"}),
    "type_list": _types,
    "sourceDescription": _source,
    "source_descriptions": _sources,
    "queryDescription": _query,
    "query_descriptions": _query_descriptions,
    "connector_list": _listed(
        "connectors",
        "connectors",
        {
            "connector": lambda row: quoted(str(row["name"])),
            "type": "type",
            "class": "className",
            "state": "state",
        },
    ),
    "connector_info": print_created_connector,
    "connector_description": print_connector_description,
    "drop_connector": print_dropped_connector,
    "connector_plugins_list": _listed(
        "connectorsPlugins",
        "connector plugins",
        {"class": "className", "type": "type", "version": "version"},
    ),
}
