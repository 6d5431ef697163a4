"""kafka-metadata-quorum: describes the quorum of a KRaft cluster; Ottla's brokers have none.

Like Kafka's tool, it prints the broker's answer to DescribeQuorum. Ottla's brokers answer with an
error that names their metadata store; a cluster of Apache Kafka gets Kafka's output.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.subcommands import (
    SubcommandParser,
    add_client_options,
    run_parsed,
    tool_parser,
)
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.client.quorum import Quorum, QuorumReplica

NAME: Final = "kafka-metadata-quorum"
DESCRIPTION: Final = (
    "This tool describes kraft metadata quorum status. Ottla has no quorum: the tool shows where"
    " the metadata is kept instead."
)
EXAMPLES: Final = """\
examples:
  kafka-metadata-quorum --bootstrap-server localhost:9092 describe --status
  kafka-metadata-quorum --bootstrap-server localhost:9092 describe --replication --human-readable
"""
COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
NO_CONTROLLERS: Final = (
    "{} needs a KRaft quorum. Ottla has none: one of the brokers is the controller, elected in"
    " ZooKeeper; `kafka-cluster list-endpoints` shows the brokers."
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments)


def work(args: argparse.Namespace) -> None:
    if args.command != "describe":
        raise ToolError(NO_CONTROLLERS.format(args.command))
    if args.bootstrap_server is None:
        raise ToolError("You must specify either --bootstrap-controller or --bootstrap-server.")
    if args.status and args.replication:
        raise ToolError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not args.status and not args.replication:
        raise ToolError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if args.status and args.human_readable:
        raise ToolError("The option --human-readable is only supported along with --replication")
    settings = read_properties(args.command_config)
    with Admin(args.bootstrap_server, settings=dict(settings)) as admin:
        if args.status:
            print_status(str(admin.cluster().cluster_id), admin.quorum())
        else:
            print_replication(admin.quorum(), human=args.human_readable)


def print_status(cluster_id: str, quorum: Quorum) -> None:
    leader = quorum.leader
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag_ms = 0
    if last.id != leader.id:
        known = leader.last_caught_up_ms >= 0 and last.last_caught_up_ms >= 0
        lag_ms = leader.last_caught_up_ms - last.last_caught_up_ms if known else -1
    facts = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - last.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _shown(quorum.voters),
        "CurrentObservers": _shown(quorum.observers),
    }
    for name, value in facts.items():
        print(f"{name + ':':<24}{value}")


def print_replication(quorum: Quorum, *, human: bool) -> None:
    leader = quorum.leader
    followers = [voter for voter in quorum.voters if voter.id != leader.id]
    rows = [
        _row(leader, member, status, human)
        for status, members in (
            ("Leader", [leader]),
            ("Follower", followers),
            ("Observer", quorum.observers),
        )
        for member in members
    ]
    widths = [max(len(row[at]) for row in [COLUMNS, *rows]) for at in range(len(COLUMNS))]
    for row in [COLUMNS, *rows]:
        print("\t".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + "\t")


def _row(leader: QuorumReplica, replica: QuorumReplica, status: str, human: bool) -> list[str]:
    def moment(time_ms: int) -> str:
        if time_ms < 0 or not human:
            return str(time_ms)
        return f"{int(time.time() * 1000) - time_ms} ms ago"

    return [
        str(replica.id),
        replica.directory_id,
        str(replica.log_end_offset),
        str(leader.log_end_offset - replica.log_end_offset),
        moment(replica.last_fetch_ms),
        moment(replica.last_caught_up_ms),
        status,
    ]


def _shown(replicas: Sequence[QuorumReplica]) -> str:
    return "[" + ", ".join(map(_replica, replicas)) + "]"


def _replica(replica: QuorumReplica) -> str:
    known = replica.has_directory
    directory = f'"{replica.directory_id}"' if known else "null"
    endpoints = ", ".join(f'"{endpoint}"' for endpoint in replica.endpoints)
    more = f', "endpoints": [{endpoints}]' if endpoints else ""
    return f'{{"id": {replica.id}, "directoryId": {directory}{more}}}'


def _parser() -> SubcommandParser:
    parser = tool_parser(NAME, DESCRIPTION, EXAMPLES)
    add_client_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    describe = commands.add_parser("describe", help="Describe the metadata quorum info")
    describe.add_argument("--status", action="store_true", help="A short summary.")
    describe.add_argument(
        "--replication", action="store_true", help="The progress of each replica."
    )
    describe.add_argument("--human-readable", action="store_true", help="Times as `... ms ago`.")
    add = commands.add_parser("add-controller", help="Refused: there are no controllers to add.")
    remove = commands.add_parser("remove-controller", help="Refused, for the same reason.")
    remove.add_argument("-i", "--controller-id", type=int, help="A KRaft controller.")
    remove.add_argument("-d", "--controller-directory-id", help="A KRaft controller.")
    for subparser in (add, remove):
        subparser.add_argument("--dry-run", action="store_true", help="Change nothing.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
