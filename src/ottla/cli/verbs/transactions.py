"""ottla transactions: list, describe, abort, hanging."""

from __future__ import annotations

import time
from datetime import UTC, datetime
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
from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.tool import read_properties
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.client.transactions import HANGING_AFTER_MS, HangingTransaction, TransactionDescription
from ottla.errors import ErrorCode, KafkaError

app = typer.Typer(
    help="""Transactions: list, describe, abort, and those that hang.

[dim]ottla transactions list --state Ongoing
ottla transactions describe billing-1
ottla transactions abort billing-1
ottla transactions hanging[/dim]
""",
    no_args_is_help=True,
)

_RUNNING = ("Ongoing", "PrepareCommit", "PrepareAbort")
_STATES = ("Empty", *_RUNNING, "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
_COLORS = {"Ongoing": "yellow", "Empty": "dim", "CompleteCommit": "green", "CompleteAbort": "red"}


@app.command("list")
def list_transactions(
    pattern: Annotated[
        str | None, typer.Argument(help="A regular expression that ids must match.")
    ] = None,
    *,
    state: Annotated[
        list[str],
        typer.Option("--state", help="Only those in this state; repeatable.", metavar="STATE"),
    ] = [],  # noqa: B006
    longer_than: Annotated[
        float | None, typer.Option(help="Only those that have run longer, in seconds.")
    ] = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and the state of their transactions.

    [dim]ottla transactions list
    ottla transactions list 'billing-.*' --state Ongoing --longer-than 60[/dim]
    """
    longer_than_ms = -1 if longer_than is None else int(longer_than * 1000)
    states = [_state(name) for name in state]
    if longer_than is not None and not states:
        states = [*_RUNNING]  # coordinators also count the time of transactions that are over
    with _admin(bootstrap_server, command_config) as admin:
        found = sorted(
            admin.transactions.list(states=states, longer_than_ms=longer_than_ms, pattern=pattern),
            key=lambda listing: listing.transactional_id,
        )
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "state", ">producer", ">coordinator"],
        [
            (
                f"[cyan]{escape(listing.transactional_id)}[/]",
                _colored(listing.state),
                listing.producer_id,
                listing.coordinator,
            )
            for listing in found
        ],
    )


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="The transactional id.")],
    *,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a transactional id: its producer, its timeout, the partitions of its transaction.

    [dim]ottla transactions describe billing-1 --json[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        found = _described(admin, name)
    if as_json:
        print_json(found)
        return
    print_line(
        f"[bold cyan]{escape(name)}[/]  {_colored(found.state)}  [dim]producer {found.producer_id},"
        f" epoch {found.producer_epoch}, coordinator {found.coordinator},"
        f" timeout {found.timeout_ms / 1000:g} s[/]"
    )
    if found.start_ms is not None:
        age_s = time.time() - found.start_ms / 1000
        print_line(f"  begun {_clock(found.start_ms)}, {age_s:,.0f} s ago")
    for partition in sorted(found.partitions):
        print_line(f"  [dim]writes to[/] {partition}")


@app.command()
def abort(
    name: Annotated[
        str | None, typer.Argument(help="The transactional id; omit it with --partition.")
    ] = None,
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition", "-p", metavar="TOPIC:N", help="The partition of a hanging one."
        ),
    ] = None,
    offset: Annotated[
        int | None, typer.Option(help="The first offset of the hanging transaction.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Abort the transaction of an id (fences its producer), or a hanging one in a partition.

    [dim]ottla transactions abort billing-1
    ottla transactions abort --partition orders:3 --offset 1702[/dim]
    """
    if (name is None) == (partition is None) or (partition is None) != (offset is None):
        raise typer.BadParameter("give a transactional id, or --partition and --offset")
    what = (
        f"the transaction of {name}" if name else f"the open transaction in {partition} at {offset}"
    )
    if not yes:
        typer.confirm(f"Abort {what}?", abort=True)
    with _admin(bootstrap_server, command_config) as admin:
        if name is not None:
            before = _described(admin, name)  # fencing an unknown id would create it
            admin.transactions.terminate(name)
            if before.state not in _RUNNING:
                print_line(f"no transaction of {escape(name)} was open; its producer is fenced")
                return
        elif partition is not None and offset is not None:
            abort_at(admin, _partition(partition), offset)
    print_line(f"aborted {escape(what)}")


@app.command()
def hanging(
    topics: Annotated[list[str] | None, typer.Argument(help="The topics; default: all.")] = None,
    *,
    older_than: Annotated[
        float, typer.Option(help="In seconds; longer than any transaction may run.")
    ] = HANGING_AFTER_MS / 1000,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end.

    read_committed consumers wait for these transactions for ever.

    [dim]ottla transactions hanging
    ottla transactions hanging orders --older-than 60[/dim]
    """
    with _admin(bootstrap_server, command_config) as admin:
        partitions = partitions_of(admin, topics or admin.topics.names())
        if topics and not partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {', '.join(topics)}")
        found = admin.transactions.hanging(partitions, older_than_ms=int(older_than * 1000))
    if as_json:
        print_json([_plain(transaction) for transaction in found])
        return
    if not found:
        print_line("[green]none[/]")
        return
    print_table(
        ["topic", ">partition", ">offset", ">producer", ">epoch", "last record"],
        [
            (
                transaction.partition.topic,
                transaction.partition.partition,
                transaction.producer.start_offset,
                transaction.producer.producer_id,
                transaction.producer.producer_epoch,
                _clock(transaction.producer.last_timestamp_ms),
            )
            for transaction in found
        ],
    )
    print_line("[dim]`ottla transactions abort --partition TOPIC:N --offset OFFSET` ends one[/]")


def abort_at(admin: Admin, partition: TopicPartition, offset: int) -> None:
    """Abort the transaction that is open in a partition since an offset."""
    found = admin.transactions.producers([partition])[partition]
    if isinstance(found, KafkaError):
        raise found
    for transaction in found:
        if transaction.start_offset == offset:
            admin.transactions.abort(
                partition,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator_epoch=max(0, transaction.coordinator_epoch),
            )
            return
    words = f"no transaction is open in {partition} since offset {offset}"
    raise KafkaError(ErrorCode.INVALID_TXN_STATE, words)


def _described(admin: Admin, name: str) -> TransactionDescription:
    found = admin.transactions.describe(name)[name]
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(found.code, f"the transactional id {name} was never used")
        raise found
    return found


def _state(text: str) -> str:
    for known in _STATES:
        if known.lower() == text.lower():
            return known
    raise typer.BadParameter(f"--state is one of {', '.join(_STATES)}, not {text!r}")


def _partition(text: str) -> TopicPartition:
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        raise typer.BadParameter("--partition is TOPIC:NUMBER")
    return TopicPartition(topic, int(number))


def _plain(transaction: HangingTransaction) -> dict[str, object]:
    return {
        **transaction.partition._asdict(),
        "start_offset": transaction.producer.start_offset,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.producer_epoch,
        "coordinator_epoch": transaction.producer.coordinator_epoch,
        "last_timestamp_ms": transaction.producer.last_timestamp_ms,
    }


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))


def _colored(state: str) -> str:
    return f"[{_COLORS.get(state, 'yellow')}]{state}[/]"


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
