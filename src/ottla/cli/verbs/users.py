"""ottla users: manages SCRAM users, of a running cluster or of one that was never started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.auth.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential
from ottla.broker.metadata_store import with_metadata_store
from ottla.cli.console import LOCALHOST, AsJson, Bootstrap, CommandConfig, print_json, print_table
from ottla.cli.console import print_line as say
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.password import ask_password
from ottla.client.admin import Admin
from ottla.cluster.credentials import scram_users, user_entity
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.cluster.store import MetaStoreError
from ottla.config import ConfigError, ServerConfig
from ottla.errors import ErrorCode, KafkaError

app = typer.Typer(
    help="""Users with passwords (SCRAM): add, list, remove.

[dim]ottla users add alice
ottla users list
ottla users remove alice
ottla users add admin --store server.properties[/dim]

With --store they are written to the metadata store of this server.properties, so that there is a
first user before the first broker starts. A single broker must not be running then.
""",
    no_args_is_help=True,
)

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
Name = Annotated[str, typer.Argument(help="The user's name.")]
Mechanism = Annotated[str, typer.Option(help=f"One of {', '.join(HASHES)}.")]
Store = Annotated[
    str | None,
    typer.Option("--store", help="The server.properties of a broker that is not running."),
]


@app.command("add")
def add(
    name: Name,
    *,
    password: Annotated[
        str | None,
        typer.Option(
            envvar="OTTLA_USER_PASSWORD", help="The command asks for it if it is not given."
        ),
    ] = None,
    mechanism: Mechanism = DEFAULT_MECHANISM,
    iterations: Annotated[int, typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX)] = 8192,
    store: Store = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Add a user, or replace a user's password.

    [dim]ottla users add alice
    ottla users add admin --store server.properties[/dim]
    """
    check_mechanism(mechanism)
    if password is None:
        password = ask_password("Password", twice=True)
    if store is not None:
        credential = ScramCredential.of_password(mechanism, password, iterations=iterations)
        on_store(store, lambda _, settings: put_credential(settings, name, mechanism, credential))
    else:
        with _admin(bootstrap_server, command_config) as admin:
            admin.users.set_password(name, mechanism, password, iterations)
    say(f"{name} has a password for {mechanism}")


@app.command("list")
def list_users(
    *,
    store: Store = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List the users and their mechanisms.

    [dim]ottla users list
    ottla users list --store server.properties --json[/dim]
    """
    if store is not None:
        found = on_store(store, _users)
    else:
        with _admin(bootstrap_server, command_config) as admin:
            found = admin.users.describe()
    if as_json:
        print_json(found)
        return
    rows = [
        (name, mechanism, str(count))
        for name, mechanisms in sorted(found.items())
        for mechanism, count in sorted(mechanisms.items())
    ]
    print_table(["user", "mechanism", ">iterations"], rows)


@app.command("remove")
def remove(
    name: Name,
    *,
    mechanism: Annotated[
        str | None, typer.Option(help="Only the password for this mechanism.")
    ] = None,
    store: Store = None,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Delete a user's passwords.

    [dim]ottla users remove alice
    ottla users remove alice --mechanism SCRAM-SHA-256[/dim]
    """
    if mechanism is not None:
        check_mechanism(mechanism)
    if store is not None:
        known = on_store(store, _users).get(name, {})
    else:
        with _admin(bootstrap_server, command_config) as admin:
            known = admin.users.describe(name)[name]
    gone = [name for name in known if mechanism in (None, name)]
    if not gone:
        raise ToolError(f"{name} has no password; `ottla users list` shows the users")
    if store is not None:
        on_store(store, lambda _, settings: _take(settings, name, gone))
    else:
        with _admin(bootstrap_server, command_config) as admin:
            for credential in gone:
                admin.users.delete(name, credential)
    say(f"{name} no longer has a password for {', '.join(gone)}")


def check_mechanism(mechanism: str) -> None:
    if mechanism not in HASHES:
        raise ToolError(f"{mechanism} is not one of {', '.join(HASHES)}")


async def _users(metadata: MetadataCache, settings: RuntimeSettings) -> dict[str, dict[str, int]]:
    return scram_users(metadata.image)


async def put_credential(
    settings: RuntimeSettings, name: str, mechanism: str, credential: ScramCredential
) -> dict[str, dict[str, int]]:
    return await _change(settings, name, lambda present: {**present, mechanism: str(credential)})


async def _take(
    settings: RuntimeSettings, name: str, mechanisms: list[str]
) -> dict[str, dict[str, int]]:
    return await _change(
        settings,
        name,
        lambda present: {key: present[key] for key in present if key not in mechanisms},
    )


async def _change(
    settings: RuntimeSettings, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> dict[str, dict[str, int]]:
    entity = user_entity(name)
    outcome = await settings.alter_quotas([entity], lambda _, present: change(present))
    failure = outcome[entity]
    if failure is not None:
        raise failure
    return {}


Work = Callable[[MetadataCache, RuntimeSettings], Awaitable[dict[str, dict[str, int]]]]


def on_store(path: str, work: Work) -> dict[str, dict[str, int]]:
    try:
        config = ServerConfig.load(path, {})
        if not config.zookeeper_connect:
            Path(config.log_dirs[0]).mkdir(parents=True, exist_ok=True)
        return asyncio.run(with_metadata_store(config, work))
    except (ConfigError, MetaStoreError) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))
