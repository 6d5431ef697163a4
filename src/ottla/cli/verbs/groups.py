"""ottla groups: list, describe, members, reset, redrive, delete; groups of every type."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ottla.cli.kafka.group_offsets import new_offsets, topic_partitions
from ottla.cli.kafka.group_report import assignment_text
from ottla.cli.kafka.options import Option, Options
from ottla.cli.kafka.share_redrive import show_progress, told
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.output import (
    LOCALHOST,
    AsJson,
    Bootstrap,
    CommandConfig,
    print_json,
    print_table,
    said,
)
from ottla.cli.verbs.group_progress import (
    Row,
    alter_offsets,
    current_offsets,
    described,
    progress,
)
from ottla.cli.verbs.places import time_of
from ottla.client.admin import Admin
from ottla.client.describing import GroupDescription
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
        str | None, typer.Option("--type", help="classic, consumer, share or streams; none: all.")
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
        (each for each in found if kind is None or each.type.lower() == kind.lower()),
        key=lambda each: each.name,
    )
    if as_json:
        print_json(groups)
        return
    rows = [
        (f"[cyan]{escape(each.name)}[/]", _colored(each.state), each.type, each.protocol or "-")
        for each in groups
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
    """Show who is in a group, and how far it has read.

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
                *(_number(row[each.removeprefix(">")]) for each in readers),
            )
            for row in rows
        ],
    )
    idle = [each for each in group.members if not each.assignment]
    for member in idle:
        said(f"  [dim]idle:[/] {escape(member.id)} {member.host}")


@app.command()
def members(
    name: Annotated[str, typer.Argument(help="The group.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's members: what each reads, and what it is to read next.

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
                f"[cyan]{escape(each.id)}[/]",
                escape(each.client_id),
                each.host,
                escape(each.instance_id or "-"),
                _number(each.epoch),
                assignment_text(each.assignment),
                "-" if each.target is None else assignment_text(each.target),
            )
            for each in group.members
        ],
    )


@app.command()
def reset(
    name: Annotated[str, typer.Argument(help="The group; it must have no members.")],
    *,
    to: Annotated[str, typer.Option(help="earliest, latest, an offset, +N or -N, or a time.")],
    topic: Annotated[
        list[str], typer.Option("--topic", "-t", help="topic or topic:0,1; none: all that it read.")
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option(help="Only show what would be done.")] = False,
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
            raise ToolError(f"group {name} has no offsets; name what to set by --topic")
        plan = new_offsets(admin, scenario, partitions, current)
        if not dry_run:
            alter_offsets(admin, name, plan, shared=shared)
    if as_json:
        print_json([{**each._asdict(), "offset": offset} for each, offset in plan.items()])
        return
    rows = [
        (each.topic, each.partition, _number(current.get(each)), f"{offset:,}")
        for each, offset in plan.items()
    ]
    print_table(["topic", ">partition", ">from", ">to"], rows)
    if dry_run:
        said("[yellow]nothing was changed[/] (--dry-run)")


@app.command()
def redrive(
    name: Annotated[str, typer.Argument(help="The share group.")],
    *,
    topic: Annotated[
        list[str], typer.Option("--topic", "-t", help="Only records of this topic; may be again.")
    ] = [],  # noqa: B006
    since: Annotated[
        str | None, typer.Option("--from", help="Only letters since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only letters before this time.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at most.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Only show what would be done.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send a share group's dead letters back to the topics that they came from, exactly once.

    [dim]ottla groups redrive workers --dry-run
    ottla groups redrive workers --topic jobs --from 2026-01-31T12:00 --limit 100[/dim]
    """
    choice = RedriveFilter(
        tuple(topic),
        None if since is None else time_of(since, "--from", "a date"),
        None if until is None else time_of(until, "--to", "a date"),
        limit,
    )
    with _admin(bootstrap_server, command_config) as admin:
        summary = admin.shares.redrive(name, choice, dry_run=dry_run, progress=show_progress)
    if as_json:
        print_json(
            {
                "dead_letter_topic": summary.dead_letter_topic,
                "redriven": [
                    {**each._asdict(), "count": count}
                    for each, count in sorted(summary.redriven.items())
                ],
                "filtered": summary.filtered,
                "lost": summary.lost,
                "homeless": summary.homeless,
            }
        )
        return
    rows = [
        (escape(each.topic), each.partition, f"{count:,}")
        for each, count in sorted(summary.redriven.items())
    ]
    if rows:
        print_table(["topic", ">partition", ">redriven"], rows)
    said(escape(told(summary, dry_run=dry_run)))


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
        said(f"deleted group [cyan]{escape(name)}[/]")


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))


def _chosen(admin: Admin, words: list[str]) -> list[TopicPartition]:
    known = admin.topics.names()
    for name in (each.partition(":")[0] for each in words):
        if name not in known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    return topic_partitions(admin, words)


def _scenario(to: str) -> Options:
    """Kafka's own option for each form of `--to`."""
    words = {"earliest": ["--to-earliest"], "latest": ["--to-latest"]}.get(to)
    if words is None:
        if to[:1] in "+-" and to[1:].isdigit():
            words = ["--shift-by", str(int(to))]
        elif to.isdigit():
            words = ["--to-offset", to]
        else:
            time_of(to, "--to", "earliest, latest, an offset, +N, -N")
            words = ["--to-datetime", to if "T" in to else f"{to}T00:00:00"]
    known = [
        Option("to-earliest", ""),
        Option("to-latest", ""),
        *(Option(each, "", "value") for each in ("shift-by", "to-offset", "to-datetime")),
        *(Option(each, "", "value") for each in ("by-duration", "from-file", "to-current")),
    ]
    return Options(known, words)


def _title(group: GroupDescription, rows: list[Row]) -> None:
    lag = f", lag {sum(int(row['lag'] or 0) for row in rows):,}" if rows else ""
    epoch = "" if group.epoch is None else f", epoch {group.epoch}"
    said(
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
