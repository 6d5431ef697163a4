"""kafka-client-metrics: the metrics that brokers request from clients (KIP-714)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.configs import ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.checkpoints import random_uuid, uuid_text

NAME: Final = "kafka-client-metrics"
DESCRIPTION: Final = "This tool helps to manipulate and describe client metrics configurations."
ACTIONS: Final = ("alter", "delete", "describe", "list")
SELECTORS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("alter", "Alter the configuration for the client metrics resource."),
    Option("delete", "Delete the configuration for the client metrics resource."),
    Option("describe", "List configurations for the client metrics resource."),
    Option("list", "List the client metrics resources."),
    Option("name", "Name of client metrics configuration resource.", "name"),
    Option("generate-name", "Generate a UUID to use as the name."),
    Option("interval", "The metrics push interval in milliseconds.", "push interval"),
    Option(
        "match",
        "Matching selector 'k1=v1,k2=v2'. Selector names: " + ", ".join(SELECTORS) + ".",
        "k1=v1,k2=v2",
    ),
    Option("metrics", "Telemetry metric name prefixes 'm1,m2'.", "m1,m2"),
)
SETTINGS: Final = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    action = check(options)
    settings = read_properties(options.value("command-config"))
    bootstrap = options.value("bootstrap-server")
    assert bootstrap is not None
    with Admin(bootstrap, settings=dict(settings)) as admin:
        try:
            if action == "alter":
                alter(admin, options)
            elif action == "delete":
                delete(admin, options.require("name"))
            elif action == "describe":
                describe(admin, options.value("name"))
            else:
                print("\n".join(resources(admin)))
        except KafkaError as error:
            if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            print(f"Error while executing client metrics command : {message_of(error)}")
            return 1
    return 0


def check(options: Options) -> str:
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: --alter, --delete, --describe or --list."
        )
    if not options.has("bootstrap-server"):
        raise ToolError("--bootstrap-server must be specified.")
    (action,) = actions
    if action != "alter":
        options.refuse(action, ("generate-name", "interval", "match", "metrics"))
    if action == "list":
        options.refuse(action, ("name",))
    if action == "alter" and options.has("name") == options.has("generate-name"):
        raise ToolError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not options.has("name"):
        raise ToolError("A client metrics resource name must be specified with --delete.")
    return action


def alter(admin: Admin, options: Options) -> None:
    """An empty value deletes the setting."""
    name = options.value("name") or uuid_text(random_uuid())
    options.integer("interval")
    values = {
        config: options.require(option)
        for option, config in SETTINGS.items()
        if options.has(option)
    }
    admin.configs.alter(
        ResourceType.CLIENT_METRICS,
        name,
        set={config: value for config, value in values.items() if value},
        delete=[config for config, value in values.items() if not value],
    )
    print(f"Altered client metrics config for {name}.")


def delete(admin: Admin, name: str) -> None:
    known = [config.name for config in admin.configs.describe(ResourceType.CLIENT_METRICS, name)]
    admin.configs.alter(ResourceType.CLIENT_METRICS, name, delete=known)
    print(f"Deleted client metrics config for {name}.")


def describe(admin: Admin, name: str | None) -> None:
    for resource in [name] if name is not None else resources(admin):
        print(f"Client metrics configs for {resource} are:")
        for config in admin.configs.describe(ResourceType.CLIENT_METRICS, resource):
            print(f"  {config.name}={config.value}")


def resources(admin: Admin) -> list[str]:
    return sorted(admin.configs.resources(ResourceType.CLIENT_METRICS))


if __name__ == "__main__":
    sys.exit(main())
