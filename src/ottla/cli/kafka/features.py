"""kafka-features: describe and change the cluster's feature levels."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.feature_versions import (
    DEPENDENCIES,
    LEVELS,
    METADATA_VERSIONS,
    levels_of,
    metadata_level,
    metadata_name,
)
from ottla.cli.kafka.subcommands import (
    SubcommandParser,
    add_client_options,
    run_parsed,
    tool_parser,
)
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.client.features import FeatureUpgrade
from ottla.errors import KafkaError

NAME: Final = "kafka-features"
DESCRIPTION: Final = "This tool manages feature flags in Kafka."
METADATA: Final = "metadata.version"
EXAMPLES: Final = """\
examples:
  kafka-features --bootstrap-server localhost:9092 describe
  kafka-features --bootstrap-server localhost:9092 upgrade --feature transaction.version=2
  kafka-features --bootstrap-server localhost:9092 disable --feature share.version
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments)


def work(args: argparse.Namespace) -> None:
    if args.command == "version-mapping":
        version_mapping(args.release_version)
        return
    if args.command == "feature-dependencies":
        for feature in args.feature:
            print(dependencies(*name_and_level(feature)))
        return
    if args.bootstrap_server is None:
        raise ToolError("You must specify either --bootstrap-controller or --bootstrap-server.")
    settings = read_properties(args.command_config)
    with Admin(args.bootstrap_server, settings=dict(settings)) as admin:
        if args.command == "describe":
            describe(admin, args.node_id)
        else:
            update(admin, args)


def describe(admin: Admin, node_id: int | None) -> None:
    found = admin.features.describe(node_id)
    for name, (low, high) in sorted(found.supported.items()):
        level = found.finalized.get(name, 0)
        print(
            f"Feature: {name:<40}  SupportedMinVersion: {_shown(name, low):<15}"
            f"  SupportedMaxVersion: {_shown(name, high):<15}"
            f"  FinalizedVersionLevel: {_shown(name, level):<15}"
            f"  Epoch: {found.epoch if found.epoch >= 0 else '-'}"
        )


def update(admin: Admin, args: argparse.Namespace) -> None:
    """`upgrade`, `downgrade` or `disable`: all named features, or none."""
    operation = args.command
    upgrade = FeatureUpgrade.UPGRADE
    if operation != "upgrade":
        upgrade = FeatureUpgrade.UNSAFE_DOWNGRADE if args.unsafe else FeatureUpgrade.SAFE_DOWNGRADE
    levels = _wanted(args, upgrade)
    if not levels:
        raise ToolError(f"You must specify at least one feature to {operation}")
    failure = None
    try:
        admin.features.update(levels, upgrade, validate_only=args.dry_run)
    except KafkaError as error:
        failure = error.message or str(error)
    for name, level in sorted(levels.items()):
        goal = "" if operation == "disable" else f" to {level}"
        if failure is None:
            print(f"{name} {'can be' if args.dry_run else 'was'} {operation}d{goal}.")
        else:
            start = "Can not" if args.dry_run else "Could not"
            print(f"{start} {operation} {name}{goal}. {failure}")
    if failure is not None:
        raise ToolError(f"{len(levels)} out of {len(levels)} operation(s) failed.")


def _wanted(args: argparse.Namespace, upgrade: FeatureUpgrade) -> dict[str, int]:
    named = args.feature or []
    if args.command == "disable":
        return _without_repeats([(name, 0) for name in named])
    if args.release_version is not None:
        if args.metadata is not None or named:
            raise ToolError("Can not specify `release-version` with other feature flags.")
        metadata = metadata_level(args.release_version)
        levels = levels_of(metadata).items()
        kept = {n: level for n, level in levels if level or upgrade is not FeatureUpgrade.UPGRADE}
        return {METADATA: metadata, **kept}
    wanted = [name_and_level(feature) for feature in named]
    if args.metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        wanted.append((METADATA, metadata_level(args.metadata)))
    return _without_repeats(wanted)


def version_mapping(release: str | None) -> None:
    release = release or METADATA_VERSIONS[-1]
    metadata = metadata_level(release)
    print(f"{METADATA}={metadata} ({release})")
    for name, level in levels_of(metadata).items():
        print(f"{name}={level}")


def dependencies(name: str, level: int) -> str:
    if name == METADATA:
        if metadata_name(level) is None:
            raise ToolError(f"Unknown metadata.version {level}")
        return f"{name}={level} ({metadata_name(level)}) has no dependencies."
    if name not in LEVELS:
        raise ToolError(f"Unknown feature: {name}")
    if not 0 <= level <= len(LEVELS[name]):
        raise ToolError(f"No feature:{name} with feature level {level}")
    needed = DEPENDENCIES.get((name, level))
    if needed is None:
        return f"{name}={level} has no dependencies."
    lines = [f"    {feature}={its} ({metadata_name(its)})" for feature, its in needed.items()]
    return "\n".join([f"{name}={level} requires:", *lines])


def _shown(name: str, level: int) -> str:
    if name != METADATA:
        return str(level)
    return metadata_name(level) or f"UNKNOWN {level}"


def name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    start = f"Can't parse feature=level string {text}:"
    if not equals:
        raise ToolError(f"{start} equals sign not found.")
    try:
        return name, int(level)
    except ValueError:
        raise ToolError(f"{start} unable to parse {level} as a short.") from None


def _without_repeats(wanted: Sequence[tuple[str, int]]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, level in wanted:
        if name in levels:
            raise ToolError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _parser() -> SubcommandParser:
    parser = tool_parser(NAME, DESCRIPTION, EXAMPLES)
    add_client_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    describing = commands.add_parser("describe", help="Describes the active feature flags.")
    describing.add_argument("--node-id", type=int, help="The broker to query.")
    for name in ("upgrade", "downgrade", "disable"):
        changing = commands.add_parser(name, help=f"{name.capitalize()} feature flags.")
        if name != "disable":
            changing.add_argument(
                "--metadata", help="DEPRECATED: a metadata.version, such as 4.4-IV2."
            )
            changing.add_argument("--release-version", help="All features of this release.")
        changing.add_argument(
            "--feature", action="append", help="name=level; for disable the name."
        )
        if name != "upgrade":
            changing.add_argument("--unsafe", action="store_true", help="Accept data loss.")
        changing.add_argument("--dry-run", action="store_true", help="Validate, change nothing.")
    mapping = commands.add_parser("version-mapping", help="The feature levels of a release.")
    mapping.add_argument("--release-version", help="The release; default: the newest.")
    needed = commands.add_parser("feature-dependencies", help="What a feature level requires.")
    needed.add_argument("--feature", action="append", required=True, help="name=level")
    return parser


if __name__ == "__main__":
    sys.exit(main())
