"""ottla topics: list, describe, create, delete, grow."""

from __future__ import annotations

import base64
from typing import Annotated

import typer

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
from ottla.cli.kafka.topics import topic_pattern
from ottla.client.admin import Admin
from ottla.client.configs import ConfigEntry, ConfigSource
from ottla.client.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.record import TopicPartition
from ottla.client.topics import INTERNAL, TopicDescription
from ottla.errors import KafkaError

app = typer.Typer(
    help="""Topics: list, describe, create, delete, grow.

[dim]ottla topics list
ottla topics create orders --partitions 3 --config retention.ms=86400000
ottla topics describe orders[/dim]
""",
    no_args_is_help=True,
)

Configs = Annotated[
    list[str], typer.Option("--config", "-c", help="A config of the topic.", metavar="NAME=VALUE")
]


@app.command("list")
def list_topics(
    pattern: Annotated[str | None, typer.Argument(help="A regular expression.")] = None,
    *,
    internal: Annotated[bool, typer.Option(help="Include internal topics.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions and their numbers of records.

    [dim]ottla topics list
    ottla topics list 'order.*' --json[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        names = admin.topics.names(internal=internal)
        if pattern is not None:
            match = topic_pattern(pattern)
            names = [name for name in names if match.fullmatch(name)]
        topics = _described(admin, names)
        counts = _record_counts(admin, topics)
    if as_json:
        print_json(
            [
                {
                    "name": topic.name,
                    "partitions": len(topic.partitions),
                    "replication_factor": _factor(topic),
                    "records": counts[topic.name],
                    "internal": topic.internal or topic.name in INTERNAL,
                }
                for topic in topics
            ]
        )
        return
    rows = [
        (f"[cyan]{topic.name}[/]", len(topic.partitions), _factor(topic), f"{counts[topic.name]:,}")
        for topic in topics
    ]
    print_table(["topic", ">partitions", ">replicas", ">records"], rows)


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(help="The topics.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the partitions and configs of topics.

    [dim]ottla topics describe orders
    ottla topics describe orders --json[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        topics = _described(admin, names)
        configs = admin.configs.describe_topics(names)
        partitions = [
            TopicPartition(described.name, part.partition)
            for described in topics
            for part in described.partitions
        ]
        first = admin.offsets.find(partitions, EARLIEST)
        last = admin.offsets.find(partitions, LATEST)
    shown = [
        {
            "name": topic.name,
            "id": base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
            "internal": topic.internal,
            "configs": _own(configs[topic.name]),
            "partitions": [
                {
                    "partition": part.partition,
                    "leader": part.leader,
                    "leader_epoch": part.leader_epoch,
                    "replicas": part.replicas,
                    "isr": part.isr,
                    "first_offset": _offset(first[TopicPartition(topic.name, part.partition)]),
                    "end_offset": _offset(last[TopicPartition(topic.name, part.partition)]),
                }
                for part in topic.partitions
            ],
        }
        for topic in topics
    ]
    if as_json:
        print_json(shown)
        return
    for topic in shown:
        _print_topic(topic)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The name of the new topic.")],
    *,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, help="Number of partitions; default: the broker's."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", help="Replicas of each partition.")
    ] = None,
    config: Configs = [],  # noqa: B006
    if_not_exists: Annotated[bool, typer.Option(help="Do nothing if it exists.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Create a topic.

    [dim]ottla topics create orders --partitions 3
    ottla topics create users --config cleanup.policy=compact[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        if if_not_exists and name in admin.topics.names():
            print_line(f"topic [cyan]{name}[/] exists already")
            return
        admin.topics.create(
            name, partitions, replication_factor=replication_factor, configs=_pairs(config)
        )
    print_line(f"created topic [cyan]{name}[/]")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="The topics.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Delete topics with all their records.

    [dim]ottla topics delete orders --yes[/dim]
    """
    if not yes:
        typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True)
    with _admin(bootstrap_server, command_config) as admin:
        results = admin.topics.delete(*names)
    for name, error in results.items():
        if error is not None:
            raise KafkaError(error.code, f"{name}: {str(error).removeprefix('Broker: ')}")
        print_line(f"deleted topic [cyan]{name}[/]")


@app.command()
def grow(
    name: Annotated[str, typer.Argument(help="The topic.")],
    partitions: Annotated[int, typer.Argument(help="The new number of partitions.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Add partitions to a topic. Keys may map to other partitions than before.

    [dim]ottla topics grow orders 12[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        admin.topics.grow(name, partitions)
    print_line(f"topic [cyan]{name}[/] has {partitions} partitions now")


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))


def _described(admin: Admin, names: list[str]) -> list[TopicDescription]:
    found = admin.topics.describe(*names) if names else {}
    topics = []
    for name in names:
        topic = found[name]
        if isinstance(topic, KafkaError):
            raise KafkaError(topic.code, f"topic {name} does not exist")
        topics.append(topic)
    return topics


def _record_counts(admin: Admin, topics: list[TopicDescription]) -> dict[str, int]:
    """The distance of first and last offsets; compacted topics have fewer records than that."""
    partitions = [
        TopicPartition(topic.name, part.partition) for topic in topics for part in topic.partitions
    ]
    first = admin.offsets.find(partitions, EARLIEST)
    last = admin.offsets.find(partitions, LATEST)
    counts = dict.fromkeys((topic.name for topic in topics), 0)
    for partition in partitions:
        low, high = _offset(first[partition]), _offset(last[partition])
        counts[partition.topic] += (high or 0) - (low or 0)
    return counts


def _offset(at: OffsetAt | KafkaError) -> int | None:
    return at.offset if isinstance(at, OffsetAt) else None


def _factor(topic: TopicDescription) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _own(configs: list[ConfigEntry] | KafkaError) -> dict[str, str | None]:
    if isinstance(configs, KafkaError):
        raise configs
    dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return {config.name: config.value for config in configs if config.source == dynamic}


def _print_topic(topic: dict[str, object]) -> None:
    print_line(f"[bold cyan]{topic['name']}[/]  [dim]{topic['id']}[/]")
    configs = topic["configs"]
    assert isinstance(configs, dict)
    for name, value in configs.items():
        print_line(f"  {name} = {value}")
    parts = topic["partitions"]
    assert isinstance(parts, list)
    rows = [
        (
            part["partition"],
            part["leader"] if part["leader"] >= 0 else "[red]none[/]",
            ",".join(map(str, part["replicas"])),
            _in_sync(part["isr"], part["replicas"]),
            _shown(part["first_offset"]),
            _shown(part["end_offset"]),
        )
        for part in parts
    ]
    print_table([">partition", ">leader", "replicas", "in sync", ">first", ">end"], rows)


def _in_sync(isr: tuple[int, ...], replicas: tuple[int, ...]) -> str:
    color = "green" if len(isr) == len(replicas) else "yellow"
    return f"[{color}]{','.join(map(str, isr))}[/]"


def _shown(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(f"--config {word}: expected NAME=VALUE, such as retention.ms=60000")
        pairs[name] = value
    return pairs
