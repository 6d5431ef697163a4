"""ottla groups: list, describe, members, reset, redrive, delete; groups of every type."""

from __future__ import annotations

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
from ottla.cli.kafka.group_offsets import new_offsets, topic_partitions
from ottla.cli.kafka.group_report import assignment_text
from ottla.cli.kafka.options import Option, Options
from ottla.cli.kafka.share_redrive import show_progress, summary_text
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.verbs.group_progress import (
    Row,
    alter_offsets,
    current_offsets,
    described,
    progress,
)
from ottla.cli.verbs.timestamps import parse_timestamp
from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.record import TopicPartition
from ottla.client.redrive import RedriveFilter
from ottla.errors import ErrorCode, KafkaError

app = typer.Typer(
    help="""Groups of every type: list, describe, members, reset, redrive, delete.

[dim]ottla groups list
ottla groups describe billing
ottla groups members billing
ottla groups reset billing --topic orders --to earliest
ottla groups redrive workers --dry-run[/dim]
""",
    no_args_is_help=True,
)

_COLORS = {"Stable": "green", "Empty": "dim", "Dead": "red"}
_TYPES = ("classic", "consumer", "share", "streams")


@app.command("list")
def list_groups(
    *,
    kind: Annotated[
        str | None,
        typer.Option("--type", help="classic, consumer, share or streams; default: all."),
    ] = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List groups of every type and their states.

    [dim]ottla groups list
    ottla groups list --type share --json[/dim]
    """
    if kind is not None and kind.lower() not in _TYPES:
        raise typer.BadParameter(f"--type is one of {', '.join(_TYPES)}, not {kind!r}")
    with _admin(bootstrap_server, command_config) as admin:
        found = admin.groups.list_all()
    groups = sorted(
        (group for group in found if kind is None or group.type.lower() == kind.lower()),
        key=lambda group: group.name,
    )
    if as_json:
        print_json(groups)
        return
    rows = [
        (f"[cyan]{escape(group.name)}[/]", _colored(group.state), group.type, group.protocol or "-")
        for group in groups
    ]
    print_table(["group", "state", "type", "protocol"], rows)


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="The group.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's members and its progress.

    [dim]ottla groups describe billing
    ottla groups describe billing --json[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        group = described(admin, name)
        rows = progress(admin, group)
    if as_json:
        print_json(
            {
                "name": group.name,
                "state": group.state,
                "type": group.type,
                "assignor": group.assignor,
                "coordinator": group.coordinator.id,
                "epoch": group.epoch,
                "members": group.members,
                "offsets": rows,
            }
        )
        return
    _title(group, rows)
    readers = [">members"] if group.type == "Share" else ["member", "host"]
    print_table(
        ["topic", ">partition", ">offset", ">end", ">lag", *readers],
        [
            (
                row["topic"],
                row["partition"],
                _number(row["offset"]),
                _number(row["end"]),
                _lag(row["lag"]),
                *(_number(row[column.removeprefix(">")]) for column in readers),
            )
            for row in rows
        ],
    )
    idle = [member_ for member_ in group.members if not member_.assignment]
    for member in idle:
        print_line(f"  [dim]idle:[/] {escape(member.id)} {member.host}")


@app.command()
def members(
    name: Annotated[str, typer.Argument(help="The group.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's members: their partitions and their targets.

    [dim]ottla groups members billing[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        group = described(admin, name)
    if as_json:
        print_json(group.members)
        return
    _title(group, [])
    print_table(
        ["member", "client", "host", "instance", ">epoch", "reads", "is to read"],
        [
            (
                f"[cyan]{escape(member.id)}[/]",
                escape(member.client_id),
                member.host,
                escape(member.instance_id or "-"),
                _number(member.epoch),
                assignment_text(member.assignment),
                "-" if member.target is None else assignment_text(member.target),
            )
            for member in group.members
        ],
    )


@app.command()
def reset(
    name: Annotated[str, typer.Argument(help="The group, which must have no members.")],
    *,
    to: Annotated[str, typer.Option(help="earliest, latest, an offset, +N or -N, or a time.")],
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", help="topic or topic:0,1; default: all it has read.", metavar="TOPIC"
        ),
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option(help="Only show what would change.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move a group's offsets.

    [dim]ottla groups reset billing --to earliest --dry-run
    ottla groups reset billing --to -100 --topic orders
    ottla groups reset billing --to 2026-01-31T12:00:00[/dim]
    """
    scenario = _scenario(to)
    with _admin(bootstrap_server, command_config) as admin:
        group = described(admin, name, may_miss=True)
        if group is not None and group.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {name} has {_members(group)}")
        shared = group is not None and group.type == "Share"
        current = current_offsets(admin, name, shared=shared)
        partitions = _chosen(admin, topic) if topic else sorted(current)
        if not partitions:
            raise ToolError(f"group {name} has no offsets; name topics with --topic")
        plan = new_offsets(admin, scenario, partitions, current)
        if not dry_run:
            alter_offsets(admin, name, plan, shared=shared)
    if as_json:
        print_json(
            [{**partition._asdict(), "offset": offset} for partition, offset in plan.items()]
        )
        return
    rows = [
        (partition.topic, partition.partition, _number(current.get(partition)), f"{offset:,}")
        for partition, offset in plan.items()
    ]
    print_table(["topic", ">partition", ">from", ">to"], rows)
    if dry_run:
        print_line("[yellow]nothing was changed[/] (--dry-run)")


@app.command()
def redrive(
    name: Annotated[str, typer.Argument(help="The share group.")],
    *,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", help="Only records of this topic; repeatable.", metavar="TOPIC"
        ),
    ] = [],  # noqa: B006
    since: Annotated[
        str | None, typer.Option("--from", help="Only letters since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only letters before this time.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The maximum number of letters.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Only count.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send a share group's dead letters back to their source topics, exactly once.

    [dim]ottla groups redrive workers --dry-run
    ottla groups redrive workers --topic jobs --from 2026-01-31T12:00 --limit 100[/dim]
    """
    choice = RedriveFilter(
        tuple(topic),
        None if since is None else parse_timestamp(since, "--from", "a date"),
        None if until is None else parse_timestamp(until, "--to", "a date"),
        limit,
    )
    with _admin(bootstrap_server, command_config) as admin:
        summary = admin.shares.redrive(name, choice, dry_run=dry_run, progress=show_progress)
    if as_json:
        print_json(
            {
                "dead_letter_topic": summary.dead_letter_topic,
                "redriven": [
                    {**partition._asdict(), "count": count}
                    for partition, count in sorted(summary.redriven.items())
                ],
                "filtered": summary.filtered,
                "lost": summary.lost,
                "homeless": summary.homeless,
            }
        )
        return
    rows = [
        (escape(partition.topic), partition.partition, f"{count:,}")
        for partition, count in sorted(summary.redriven.items())
    ]
    if rows:
        print_table(["topic", ">partition", ">redriven"], rows)
    print_line(escape(summary_text(summary, dry_run=dry_run)))


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="The groups.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Delete groups and their offsets.

    [dim]ottla groups delete billing --yes[/dim]
    """
    if not yes:
        typer.confirm(f"Delete {', '.join(names)} with their offsets?", abort=True)
    with _admin(bootstrap_server, command_config) as admin:
        results = admin.groups.delete(*names)
    for name, error in results.items():
        if error is not None:
            raise KafkaError(error.code, f"{name}: {str(error).removeprefix('Broker: ')}")
        print_line(f"deleted group [cyan]{escape(name)}[/]")


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))


def _chosen(admin: Admin, words: list[str]) -> list[TopicPartition]:
    known = admin.topics.names()
    for name in (word.partition(":")[0] for word in words):
        if name not in known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    return topic_partitions(admin, words)


def _scenario(to: str) -> Options:
    """The option of Kafka's tool for each form of `--to`."""
    words = {"earliest": ["--to-earliest"], "latest": ["--to-latest"]}.get(to)
    if words is None:
        if to[:1] in "+-" and to[1:].isdigit():
            words = ["--shift-by", str(int(to))]
        elif to.isdigit():
            words = ["--to-offset", to]
        else:
            parse_timestamp(to, "--to", "earliest, latest, an offset, +N, -N")
            words = ["--to-datetime", to if "T" in to else f"{to}T00:00:00"]
    known = [
        Option("to-earliest", ""),
        Option("to-latest", ""),
        *(Option(name, "", "value") for name in ("shift-by", "to-offset", "to-datetime")),
        *(Option(name, "", "value") for name in ("by-duration", "from-file", "to-current")),
    ]
    return Options(known, words)


def _title(group: GroupDescription, rows: list[Row]) -> None:
    lag = f", lag {sum(int(row['lag'] or 0) for row in rows):,}" if rows else ""
    epoch = "" if group.epoch is None else f", epoch {group.epoch}"
    print_line(
        f"[bold cyan]{escape(group.name)}[/]  {_colored(group.state)}  [dim]{group.type.lower()},"
        f" {group.assignor or 'no assignor'}, coordinator {group.coordinator.id}{epoch},"
        f" {_members(group)}{lag}[/]"
    )


def _members(group: GroupDescription) -> str:
    count = len(group.members)
    return "1 member" if count == 1 else f"{count} members"


def _colored(state: str) -> str:
    return f"[{_COLORS.get(state, 'yellow')}]{state}[/]"


def _number(value: int | str | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else escape(value)


def _lag(value: int | str | None) -> str:
    if not isinstance(value, int):
        return "-"
    return f"[{'yellow' if value else 'green'}]{value:,}[/]"
