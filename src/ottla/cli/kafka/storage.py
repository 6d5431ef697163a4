"""kafka-storage: generates ids, and formats the log directories of a broker.

Ottla's brokers need no formatting: they accept empty directories, and generate a cluster id.
`format` writes that id and the broker's before the first start, so that the cluster has a chosen
id, and a broker refuses directories of another cluster. There is no KRaft quorum to prepare:
options about controllers are accepted and ignored.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.auth.scram import ScramCredential
from ottla.cli.kafka.feature_versions import METADATA_VERSIONS, metadata_level
from ottla.cli.kafka.features import dependencies, name_and_level, version_mapping
from ottla.cli.kafka.subcommands import SubcommandParser, run_parsed, tool_parser
from ottla.cli.kafka.tool import ToolError
from ottla.config import ConfigError, ServerConfig
from ottla.storage import checkpoints
from ottla.storage.checkpoints import META_PROPERTIES, DamagedError, MetaProperties

NAME: Final = "kafka-storage"
DESCRIPTION: Final = "The Kafka storage tool."
UUID_BYTES: Final = 16
ITERATIONS: Final = 4096
_SCRAM: Final = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]")
EXAMPLES: Final = """\
examples:
  kafka-storage random-uuid
  kafka-storage format --config server.properties --cluster-id "$(kafka-storage random-uuid)"
  kafka-storage info --config server.properties
"""
QUORUM: Final = (
    "This cluster has no KRaft quorum: {} does nothing. Brokers meet in ZooKeeper"
    " (zookeeper.connect), and one broker alone needs nobody."
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments)


def work(args: argparse.Namespace) -> None:
    if args.command == "random-uuid":
        print(checkpoints.uuid_text(checkpoints.random_uuid()))
    elif args.command == "version-mapping":
        version_mapping(args.release_version)
    elif args.command == "feature-dependencies":
        for feature in args.feature:
            print(dependencies(*name_and_level(feature)))
    elif args.command == "info":
        info(_config(args.config))
    else:
        format_directories(_config(args.config), args)


def info(config: ServerConfig) -> None:
    """Print the state of the directories. SystemExit with 1 if something is wrong."""
    found, problems, metas = [], [], []
    for directory in sorted(map(Path, config.log_dirs)):
        if not directory.is_dir():
            state = "is not a directory" if directory.exists() else "does not exist"
            problems.append(f"{directory} {state}")
            continue
        found.append(directory)
        try:
            meta = _meta(directory)
        except DamagedError as damage:
            problems.append(f"Error loading {directory / META_PROPERTIES}: {damage}")
            continue
        if meta is None:
            problems.append(f"{directory} is not formatted.")
        else:
            metas.append(meta)
    problems += _mismatches(metas)
    if found:
        print(f"Found log {'directory' if len(found) == 1 else 'directories'}:")
        print("".join(f"  {directory}\n" for directory in found))
    if metas:
        print(f"Found metadata: {_shown(metas[0])}\n")
    if problems:
        print(f"Found {'problem' if len(problems) == 1 else 'problems'}:")
        print("".join(f"  {problem}\n" for problem in problems))
        raise SystemExit(1)


def format_directories(config: ServerConfig, args: argparse.Namespace) -> None:
    _check(args)
    release = args.release_version or METADATA_VERSIONS[-1]
    metadata_level(release)
    empty = []
    for directory in map(Path, config.log_dirs):
        if _meta(directory) is None:
            empty.append(directory)
        elif not args.ignore_formatted:
            raise ToolError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore"
                " this directory and format the others."
            )
    if not empty:
        print("All of the log directories are already formatted.")
    users = [_user(credential) for credential in args.add_scram or ()]
    for directory in empty:
        print(f"Formatting data directory {directory} with metadata.version {release}.")
        _format(directory, args.cluster_id, config.node_id)
    for user in users:
        _add_user(args.config, *user)


def _check(args: argparse.Namespace) -> None:
    if not is_uuid(args.cluster_id):
        raise ToolError(
            f"Cluster ID string {args.cluster_id} does not appear to be a valid UUID: it has to be"
            " 16 bytes in base64, as `kafka-storage random-uuid` prints them."
        )
    if args.feature:
        raise ToolError(
            "--feature needs a KRaft metadata log, which this cluster does not have: set levels"
            " with `kafka-features upgrade` when a broker runs."
        )
    for option in ("standalone", "no_initial_controllers", "initial_controllers"):
        if getattr(args, option):
            print(QUORUM.format("--" + option.replace("_", "-")), file=sys.stderr)


def _user(text: str) -> tuple[str, str, str, int]:
    """Name, mechanism, password and iterations of 'SCRAM-SHA-256=[name=alice,password=secret]'."""
    found = _SCRAM.fullmatch(text)
    fields = dict(field.partition("=")[::2] for field in (found[2].split(",") if found else ()))
    if found is None or not {"name", "password"} <= fields.keys():
        raise ToolError(
            f"--add-scram {text}: expected 'SCRAM-SHA-256=[name=alice,password=alice-secret]',"
            " and optionally iterations=8192; a salted password is not accepted."
        )
    return fields["name"], found[1], fields["password"], int(fields.get("iterations", ITERATIONS))


def _add_user(properties: str, name: str, mechanism: str, password: str, iterations: int) -> None:
    """Write to the broker's metadata store, like `ottla users add --store`."""
    from ottla.cli.verbs.users import on_store, put_credential

    credential = ScramCredential.of_password(mechanism, password, iterations=iterations)
    on_store(properties, lambda _, settings: put_credential(settings, name, mechanism, credential))


def is_uuid(text: str) -> bool:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(raw) == UUID_BYTES


def _format(directory: Path, cluster_id: str, node_id: int) -> None:
    meta = MetaProperties(
        cluster_id=cluster_id,
        node_id=node_id if node_id >= 0 else None,
        directory_id=checkpoints.uuid_text(checkpoints.random_uuid()),
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        beside = directory / f"{META_PROPERTIES}.tmp"
        beside.write_bytes(checkpoints.write_meta_properties(meta))
        beside.replace(directory / META_PROPERTIES)
    except OSError as error:
        raise ToolError(
            f"Error while writing meta.properties file {directory}: {error.strerror}"
        ) from None


def _meta(directory: Path) -> MetaProperties | None:
    """None: the directory is not formatted."""
    try:
        return checkpoints.read_meta_properties((directory / META_PROPERTIES).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"{directory / META_PROPERTIES}: {error.strerror}") from None


def _mismatches(metas: Sequence[MetaProperties]) -> list[str]:
    problems = []
    for meta in metas[1:]:
        if meta.cluster_id != metas[0].cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif meta.node_id != metas[0].node_id:
            problems.append("Mismatched node IDs between storage directories.")
    return problems


def _shown(meta: MetaProperties) -> str:
    """A map in Java's format."""
    fields = {
        "cluster.id": meta.cluster_id,
        "directory.id": meta.directory_id,
        "node.id": meta.node_id,
        "version": checkpoints.META_VERSION,
    }
    pairs = [f"{name}={value}" for name, value in fields.items() if value is not None]
    return "{" + ", ".join(pairs) + "}"


def _config(path: str) -> ServerConfig:
    try:
        return ServerConfig.load(path, {})
    except ConfigError as error:
        raise ToolError(str(error)) from None


def _parser() -> SubcommandParser:
    parser = tool_parser(NAME, DESCRIPTION, EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    info = commands.add_parser("info", help="Get information about the log directories.")
    make = commands.add_parser(
        "format",
        help="Write the cluster id into empty log directories (optional).",
    )
    for subparser in (info, make):
        subparser.add_argument(
            "-c", "--config", required=True, help="The broker's properties file."
        )
    make.add_argument("-t", "--cluster-id", required=True, help="The cluster's id.")
    make.add_argument(
        "-S", "--add-scram", action="append", help="A user, as SCRAM-SHA-256=[name=...]."
    )
    make.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="Skip formatted directories."
    )
    make.add_argument("-r", "--release-version", help="A release, such as 4.3; only checked.")
    make.add_argument("-f", "--feature", action="append", help="Refused, with a remedy.")
    quorum = make.add_mutually_exclusive_group()
    for flags in (("-s", "--standalone"), ("-N", "--no-initial-controllers")):
        quorum.add_argument(*flags, action="store_true", help="For a KRaft quorum: ignored.")
    quorum.add_argument("-I", "--initial-controllers", help="For a KRaft quorum: ignored.")
    mapping = commands.add_parser("version-mapping", help="The features of a release.")
    mapping.add_argument("-r", "--release-version", help="A release, such as 4.3-IV0.")
    needs = commands.add_parser("feature-dependencies", help="What a feature's level needs.")
    needs.add_argument("-f", "--feature", action="append", required=True, help="NAME=LEVEL")
    commands.add_parser("random-uuid", help="Print a random UUID.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
