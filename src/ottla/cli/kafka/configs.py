"""kafka-configs: describe and change configs, quotas and SCRAM users."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.config_entities import (
    DEFAULT_FLAGS,
    NAME_FLAGS,
    TYPES,
    ConfigEntity,
    config_entities,
)
from ottla.cli.kafka.config_report import describe_configs
from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.cli.kafka.user_configs import alter_quotas_and_users, is_quota
from ottla.client.admin import Admin
from ottla.client.configs import ResourceType
from ottla.config import TOPIC_CONFIGS
from ottla.errors import KafkaError

NAME: Final = "kafka-configs"
DESCRIPTION: Final = "This tool describes and changes the configs of topics, brokers and clients."

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("describe", "Show configs."),
    Option("alter", "Change configs."),
    Option("all", "With --describe: include defaults."),
    Option("entity-type", f"The type of the entity: {', '.join(TYPES)}.", "type"),
    Option("entity-name", "Its name.", "name"),
    Option("entity-default", "The default of all clients, users, brokers or ips."),
    Option(
        "add-config",
        "Configs to set: 'k1=v1,k2=[v1,v2],k3=v3'. Topics have:\n"
        + "\n".join(f" {name}" for name in sorted(TOPIC_CONFIGS)),
        "configs",
    ),
    Option("add-config-file", "A properties file of configs to set.", "file"),
    Option("delete-config", "Names of configs to unset: 'k1,k2'.", "names"),
    *(
        Option(flag, f"Short for --entity-type {TYPES_OF} --entity-name.", "name")
        for flag, TYPES_OF in NAME_FLAGS.items()
    ),
    *(
        Option(flag, f"Short for --entity-type {TYPES_OF} --entity-default.")
        for flag, TYPES_OF in DEFAULT_FLAGS.items()
    ),
)

_KINDS: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)

    def work(options: Options) -> int:
        chosen = check(options)
        settings = read_properties(options.value("command-config"))
        try:
            bootstrap = options.require("bootstrap-server")
            with Admin(bootstrap, settings=dict(settings)) as admin:
                if options.has("describe"):
                    describe_configs(admin, chosen, everything=options.has("all"))
                else:
                    alter(admin, options, chosen)
            return 0
        except KafkaError as error:
            shown = " ".join(words)
            print(f"Error while executing config command with args '{shown}'", file=sys.stderr)
            print(describe_error(error), file=sys.stderr)
            return 1

    return run(NAME, DESCRIPTION, OPTIONS, work, words)


def check(options: Options) -> list[ConfigEntity]:
    if options.has("describe") == options.has("alter"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    chosen = config_entities(options)
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified.")
    if options.has("alter"):
        if any(entity.name is None and not entity.default for entity in chosen):
            raise UsageError(
                "An entity name or default must be specified with --alter: --entity-name,"
                " --entity-default"
            )
        if options.has("add-config") and options.has("add-config-file"):
            raise UsageError("Only one of --add-config or --add-config-file must be specified")
        if not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
            raise UsageError(
                "At least one of --add-config, --add-config-file, or --delete-config must be"
                " specified with --alter"
            )
    return chosen


def alter(admin: Admin, options: Options, chosen: list[ConfigEntity]) -> None:
    added = parse_configs(options.value("add-config"))
    added |= read_properties(options.value("add-config-file"))
    deleted = [
        config.strip() for config in (options.value("delete-config") or "").split(",") if config
    ]
    first = chosen[0]
    if is_quota(chosen):
        alter_quotas_and_users(admin, chosen, added, deleted)
    else:
        admin.configs.alter(_KINDS[first.type], first.name or "", set=added, delete=deleted)
    if first.default:
        print(f"Completed updating default config for {first.type} in the cluster.")
    else:
        print(f"Completed updating config for {first.type.removesuffix('s')} {first.name}.")


def parse_configs(text: str | None) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`: brackets protect commas within a value."""
    configs: dict[str, str] = {}
    for part in _split(text or ""):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ToolError(
                "requirement failed: Invalid entity config: all configs to be added must be in"
                ' the format "key=val" or "key=[val1,val2]" to group values which contain commas.'
            )
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        configs[name.strip()] = value
    return configs


def _split(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts: list[str] = []
    depth = start = 0
    for index, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            parts.append(text[start:index])
            start = index + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


if __name__ == "__main__":
    sys.exit(main())
