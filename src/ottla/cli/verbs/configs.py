"""ottla configs: shows and changes the configs of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.markup import escape

from ottla.cli.console import (
    LOCALHOST,
    AsJson,
    Bootstrap,
    CommandConfig,
    print_json,
    print_line,
    print_table,
)
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.client.configs import ConfigEntry, ConfigSource, ResourceType
from ottla.errors import KafkaError

app = typer.Typer(
    help="""Configs of topics, brokers and groups: show, set, unset.

A resource is [bold]topic:NAME[/bold], [bold]broker:ID[/bold], [bold]broker:[/bold] (the default of
all brokers) or [bold]group:NAME[/bold].

[dim]ottla configs show topic:orders
ottla configs set topic:orders retention.ms=86400000
ottla configs set group:workers share.auto.offset.reset=earliest
ottla configs unset topic:orders retention.ms[/dim]

Quotas of users, clients and addresses are set with kafka-configs.
""",
    no_args_is_help=True,
)

Resource = Annotated[str, typer.Argument(help="topic:NAME, broker:ID, broker:, group:NAME")]

_KINDS = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}


@app.command()
def show(
    resource: Resource,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of configs; default: all.")
    ] = None,
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Omit defaults.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Describe each config.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show configs and where each value comes from.

    [dim]ottla configs show topic:orders
    ottla configs show broker:0 --changed
    ottla configs show topic:orders cleanup.policy --explain[/dim]
    """
    kind, name = _parse(resource)
    with _admin(bootstrap_server, command_config) as admin, _about(resource):
        found = admin.configs.describe(kind, name, documentation=True)
    default = ConfigSource.DEFAULT_CONFIG
    wanted = [
        config
        for config in found
        if (not names or config.name in names) and (not changed or config.source != default)
    ]
    for unknown in set(names or ()) - {config.name for config in found}:
        raise ToolError(f"{resource} has no config {unknown}")
    if as_json:
        print_json([_as_object(config) for config in wanted])
        return
    columns = ["config", "value", "type", "from"]
    rows = [_row(config) for config in wanted]
    if explain:
        columns.append("description")
        rows = [
            (*row, config.documentation or "") for row, config in zip(rows, wanted, strict=True)
        ]
    print_table(columns, rows)


@app.command("set")
def set_configs(
    resource: Resource,
    configs: Annotated[list[str], typer.Argument(help="NAME=VALUE", metavar="NAME=VALUE...")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Set configs.

    [dim]ottla configs set topic:orders retention.ms=86400000 cleanup.policy=compact,delete[/dim]
    """
    kind, name = _parse(resource)
    values = {}
    for config in configs:
        key, equals, value = config.partition("=")
        if not equals:
            raise ToolError(f"{config}: expected NAME=VALUE, such as retention.ms=60000")
        values[key] = value
    with _admin(bootstrap_server, command_config) as admin, _about(resource):
        admin.configs.alter(kind, name, set=values)
    for key, value in values.items():
        print_line(f"[cyan]{escape(resource)}[/] {key} = {escape(value)}")


@app.command()
def unset(
    resource: Resource,
    names: Annotated[list[str], typer.Argument(help="Names of configs.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Reset configs to their defaults.

    [dim]ottla configs unset topic:orders retention.ms[/dim]
    """
    kind, name = _parse(resource)
    with _admin(bootstrap_server, command_config) as admin, _about(resource):
        admin.configs.alter(kind, name, delete=names)
        after = {config.name: config.value for config in admin.configs.describe(kind, name)}
    for config_name in names:
        print_line(
            f"[cyan]{escape(resource)}[/] {config_name} = {escape(str(after.get(config_name)))}"
            " [dim](default)[/]"
        )


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))


@contextmanager
def _about(resource: str) -> Iterator[None]:
    """A broker may refuse with a bare code: add what the request was about."""
    try:
        yield
    except KafkaError as error:
        if error.message:
            raise
        raise KafkaError(error.code, f"{resource}: {error.code.name}") from None


def _parse(resource: str) -> tuple[ResourceType, str]:
    kind, colon, name = resource.partition(":")
    if not colon or kind not in _KINDS or (not name and kind != "broker"):
        quotas = kind in ("client", "clients", "user", "users", "ip", "ips")
        also = "; quotas are set with kafka-configs" if quotas else ""
        raise ToolError(f"{resource}: expected topic:NAME, broker:ID, broker: or group:NAME{also}")
    if kind == "broker" and name and not name.isdigit():
        raise ToolError(f"{resource}: a broker's id is a number")
    return _KINDS[kind], name


def _row(config: ConfigEntry) -> tuple[str, ...]:
    value = "(hidden)" if config.sensitive else config.value
    source = config.source.name.removesuffix("_CONFIG").lower().replace("_", " ")
    changed = config.source != ConfigSource.DEFAULT_CONFIG
    shown = "[dim]null[/]" if value is None else escape(value)
    return (
        f"[cyan]{config.name}[/]",
        f"[bold]{shown}[/]" if changed else shown,
        f"[dim]{config.type}[/]",
        f"[yellow]{source}[/]" if changed else f"[dim]{source}[/]",
    )


def _as_object(config: ConfigEntry) -> dict[str, object]:
    return {
        "name": config.name,
        "value": config.value,
        "type": config.type,
        "source": config.source.name,
        "read_only": config.read_only,
        "sensitive": config.sensitive,
        "documentation": config.documentation,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source.name}
            for synonym in config.synonyms
        ],
    }
