"""Answers about connectors, as a person reads them."""

from __future__ import annotations

from rich.markup import escape

from ottla.rows.types import quoted
from ottla.sql.shell.client import Entity
from ottla.sql.shell.screen import Screen


def print_made(screen: Screen, entity: Entity) -> None:
    info = entity.get("info") or {}
    name, side = str(info.get("name", "")), str(info.get("type", ""))
    screen.say(f"[green]done[/] Created {escape(side)} connector {escape(quoted(name))}")


def print_dropped(screen: Screen, entity: Entity) -> None:
    name = str(entity.get("connectorName", ""))
    screen.say(f"[green]done[/] Dropped connector {escape(quoted(name))}")


def print_description(screen: Screen, entity: Entity) -> None:
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
        rows = [[each.get("id"), each.get("state"), each.get("worker_id")] for each in tasks]
        screen.table(["task", "state", "worker"], rows)
    sources = entity.get("sources") or ()
    if sources:
        rows = [
            [quoted(str(each["name"])), each.get("type"), each.get("topic")] for each in sources
        ]
        screen.table(["stream or table", "type", "topic"], rows)
    every = [("connector", connector), *((f"task {each.get('id')}", each) for each in tasks)]
    for what, each in every:
        if each.get("trace"):
            screen.say(f"[red]{escape(what)} failed[/] {escape(str(each['trace']).strip())}")
