"""Prints responses about connectors."""

from __future__ import annotations

from rich.markup import escape

from ottla.rows.types import quoted
from ottla.sql.shell.client import Entity
from ottla.sql.shell.screen import Screen


def print_created_connector(screen: Screen, entity: Entity) -> None:
    info = entity.get("info") or {}
    name, side = str(info.get("name", "")), str(info.get("type", ""))
    screen.say(f"[green]done[/] Created {escape(side)} connector {escape(quoted(name))}")


def print_dropped_connector(screen: Screen, entity: Entity) -> None:
    name = str(entity.get("connectorName", ""))
    screen.say(f"[green]done[/] Dropped connector {escape(quoted(name))}")


def print_connector_description(screen: Screen, entity: Entity) -> None:
    status = entity.get("status") or {}
    name, connector = str(status.get("name", "")), status.get("connector") or {}
    screen.say(f"[bold]{escape(quoted(name))}[/] [dim]{escape(str(status.get('type', '')))}[/]")
    screen.facts(
        {
            "class": entity.get("connectorClass"),
            "state": connector.get("state"),
            "worker": connector.get("worker_id"),
            "topics": ", ".join(entity.get("topics") or ()),
        }
    )
    tasks = status.get("tasks") or ()
    if tasks:
        rows = [[task.get("id"), task.get("state"), task.get("worker_id")] for task in tasks]
        screen.table(["task", "state", "worker"], rows)
    sources = entity.get("sources") or ()
    if sources:
        rows = [
            [quoted(str(source["name"])), source.get("type"), source.get("topic")]
            for source in sources
        ]
        screen.table(["stream or table", "type", "topic"], rows)
    every = [("connector", connector), *((f"task {task.get('id')}", task) for task in tasks)]
    for what, value in every:
        if value.get("trace"):
            screen.say(f"[red]{escape(what)} failed[/] {escape(str(value['trace']).strip())}")
