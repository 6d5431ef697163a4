"""ottla connect: manages connectors over a worker's REST API; starts a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from ottla.cli.console import AsJson, Bootstrap, print_json, print_line, print_table
from ottla.cli.extras import require_spark
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.verbs.connect_rest import ConnectRest
from ottla.cli.verbs.rest_login import GIVEN, USER_HELP, Config, RestLogin
from ottla.client.connect_client import DEFAULT_URL
from ottla.spelling import did_you_mean

app = typer.Typer(
    help="""Connectors: copy systems into topics, and topics into systems.

[dim]ottla connect worker                      # a worker on port 8083
ottla connect plugins
ottla connect create orders-to-parquet.json
ottla connect list
ottla connect status orders-to-parquet
ottla connect restart orders-to-parquet --tasks --failed
ottla connect stop orders-to-parquet
ottla connect offsets orders-to-parquet --reset[/dim]
""",
    no_args_is_help=True,
)

USER_VARIABLE: Final = "OTTLA_CONNECT_USER"
WORKER: Final = DEFAULT_URL
COLORS: Final = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "PAUSED": "yellow",
    "STOPPED": "dim",
    "UNASSIGNED": "dim",
    "RESTARTING": "cyan",
}

NEW: Final = {"status": {"connector": {"state": "UNASSIGNED", "worker_id": ""}}}
"""The state of a new connector that no worker has reported yet; Kafka shows nothing then."""

Url = Annotated[
    str,
    typer.Option("--url", "-u", envvar="OTTLA_CONNECT_URL", help="A worker.", metavar="URL"),
]
Name = Annotated[str, typer.Argument(help="The connector.", metavar="NAME")]


@app.callback()
def login(
    context: typer.Context,
    *,
    user: Annotated[
        str,
        typer.Option(
            "--user", "-U", envvar=USER_VARIABLE, help=USER_HELP, metavar="NAME[:PASSWORD]"
        ),
    ] = "",
    config: Config = None,
) -> None:
    """The login options in front of a command."""
    token = GIVEN.set(RestLogin(user, config))
    context.call_on_close(lambda: GIVEN.reset(token))


@app.command("list")
def list_connectors(*, url: Url = WORKER, as_json: AsJson = False) -> None:
    """List connectors with their state and that of their tasks.

    [dim]ottla connect list
    ottla connect list --url http://worker:8083 --json[/dim]
    """
    rest = ConnectRest(url)
    found = rest.get("connectors", expand=["status", "info"])
    if as_json:
        print_json(found)
        return
    for name in rest.get("connectors"):
        found.setdefault(name, NEW)
    if not found:
        print_line("There are no connectors yet.")
        return
    rows = []
    for name, about in sorted(found.items()):
        status = about.get("status", {})
        connector = status.get("connector", {})
        kind = about.get("info", {}).get("config", {}).get("connector.class", "")
        rows.append(
            (
                escape(name),
                status.get("type", ""),
                escape(kind.rpartition(".")[2]),
                _colored(connector.get("state", "")),
                _tasks(status.get("tasks", [])),
                connector.get("worker_id", ""),
            )
        )
    print_table(("name", "type", "class", "state", "tasks", "worker"), rows)


@app.command("status")
def status(name: Name, *, url: Url = WORKER, as_json: AsJson = False) -> None:
    """Show a connector and its tasks, and why one has failed.

    [dim]ottla connect status orders[/dim]
    """
    found = _status_of(ConnectRest(url), name)
    if as_json:
        print_json(found)
        return
    every = [("connector", found["connector"])]
    every += [(f"task {task['id']}", task) for task in found["tasks"]]
    rows = [(what, _colored(state["state"]), state["worker_id"]) for what, state in every]
    print_table(("", "state", "worker"), rows, title=f"{escape(name)} ({found['type']})")
    for what, state in every:
        if state.get("trace"):
            print_line(f"[bold red]{what}[/] {escape(state['trace'].strip())}")


def _status_of(rest: ConnectRest, name: str) -> dict[str, Any]:
    """A connector has no status until a worker has started it."""
    try:
        found: dict[str, Any] = rest.get("connectors", name, "status")
        return found
    except ToolError:
        names = rest.get("connectors")
        if name not in names:
            raise ToolError(f"There is no connector {name}{did_you_mean(name, names)}") from None
    kind = rest.get("connectors", name)["type"]
    return {"name": name, "connector": NEW["status"]["connector"], "tasks": [], "type": kind}


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="JSON, or a properties file.", metavar="FILE")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the connector if it exists.")
    ] = False,
    url: Url = WORKER,
    as_json: AsJson = False,
) -> None:
    """Create a connector from a file.

    [dim]ottla connect create orders.json
    ottla connect create orders.properties --replace[/dim]
    """
    from ottla.connect.connector_files import INITIAL_STATES, read_connector_file
    from ottla.connect.errors import ConfigException

    try:
        wanted = read_connector_file(file)
    except ConfigException as error:
        raise ToolError(str(error)) from None
    rest = ConnectRest(url)
    if replace:
        created = rest.ask("PUT", "connectors", wanted.name, "config", body=dict(wanted.config))
    else:
        body: dict[str, Any] = {"name": wanted.name, "config": dict(wanted.config)}
        if wanted.target is not None:
            states = {target: state for state, target in INITIAL_STATES.items()}
            body["initial_state"] = states[wanted.target]
        created = rest.ask("POST", "connectors", body=body)
    if as_json:
        print_json(created)
        return
    print_line(f"[green]{escape(wanted.name)}[/] is a {created['type']} connector now.")
    _print_misspelled(wanted.config, rest.validation(wanted.config))


@app.command("config")
def config(
    name: Name,
    changes: Annotated[
        list[str] | None,
        typer.Argument(help="Settings to change; NAME= removes one.", metavar="[NAME=VALUE]..."),
    ] = None,
    *,
    url: Url = WORKER,
    as_json: AsJson = False,
) -> None:
    """Show a connector's config, or change parts of it.

    [dim]ottla connect config orders
    ottla connect config orders tasks.max=4 errors.tolerance=all[/dim]
    """
    rest = ConnectRest(url)
    if changes:
        patch = dict(_pair(change) for change in changes)
        found = rest.ask("PATCH", "connectors", name, "config", body=patch)["config"]
    else:
        found = rest.get("connectors", name, "config")
    if as_json:
        print_json(found)
        return
    print_table(("setting", "value"), [(escape(k), escape(v)) for k, v in found.items()])
    if changes:
        _print_misspelled(found, rest.validation(found))


@app.command("pause")
def pause(name: Name, *, url: Url = WORKER) -> None:
    """Pause a connector; tasks keep their resources.

    [dim]ottla connect pause orders[/dim]
    """
    ConnectRest(url).ask("PUT", "connectors", name, "pause")
    print_line(f"{escape(name)} is pausing.")


@app.command("resume")
def resume(name: Name, *, url: Url = WORKER) -> None:
    """Resume a connector after a pause or a stop.

    [dim]ottla connect resume orders[/dim]
    """
    ConnectRest(url).ask("PUT", "connectors", name, "resume")
    print_line(f"{escape(name)} is resuming.")


@app.command("stop")
def stop(name: Name, *, url: Url = WORKER) -> None:
    """Stop a connector's tasks; its config and offsets stay, and its offsets can be changed.

    [dim]ottla connect stop orders[/dim]
    """
    ConnectRest(url).ask("PUT", "connectors", name, "stop")
    print_line(f"{escape(name)} is stopping.")


@app.command("restart")
def restart(
    name: Name,
    *,
    task: Annotated[int | None, typer.Option("--task", help="Only this task.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Its tasks as well.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that have failed.")] = False,
    url: Url = WORKER,
) -> None:
    """Restart a connector, its tasks, or only those that have failed.

    [dim]ottla connect restart orders
    ottla connect restart orders --tasks --failed[/dim]
    """
    rest = ConnectRest(url)
    if task is not None:
        rest.ask("POST", "connectors", name, "tasks", str(task), "restart")
    else:
        flags = {"includeTasks": _word(tasks), "onlyFailed": _word(failed)}
        rest.ask("POST", "connectors", name, "restart", **flags)
    print_line(f"{escape(name)} is restarting.")


@app.command("delete")
def delete(name: Name, *, url: Url = WORKER) -> None:
    """Delete a connector. What it has copied stays.

    [dim]ottla connect delete orders[/dim]
    """
    ConnectRest(url).ask("DELETE", "connectors", name)
    print_line(f"{escape(name)} was deleted.")


@app.command("topics")
def topics(
    name: Name,
    *,
    reset: Annotated[bool, typer.Option("--reset", help="Forget the topics it has used.")] = False,
    url: Url = WORKER,
) -> None:
    """Show the topics that a connector has read or written.

    [dim]ottla connect topics orders
    ottla connect topics orders --reset[/dim]
    """
    rest = ConnectRest(url)
    if reset:
        rest.ask("PUT", "connectors", name, "topics", "reset")
    for topic in rest.get("connectors", name, "topics")[name]["topics"]:
        print(topic)


@app.command("offsets")
def offsets(
    name: Name,
    *,
    reset: Annotated[bool, typer.Option("--reset", help="Delete the offsets.")] = False,
    alter: Annotated[
        Path | None, typer.Option("--alter", help='A file: {"offsets": [...]}; - is stdin.')
    ] = None,
    url: Url = WORKER,
    as_json: AsJson = False,
) -> None:
    """Show a connector's offsets, or change those of a stopped connector.

    [dim]ottla connect offsets orders --json > there.json
    ottla connect stop orders
    ottla connect offsets orders --alter there.json
    ottla connect offsets orders --reset[/dim]
    """
    rest = ConnectRest(url)
    if reset:
        print_line(rest.ask("DELETE", "connectors", name, "offsets")["message"])
        return
    if alter is not None:
        print_line(rest.ask("PATCH", "connectors", name, "offsets", body=_read(alter))["message"])
        return
    found = rest.get("connectors", name, "offsets")
    if as_json:
        print_json(found)
        return
    rows = [
        (_fields(offset["partition"]), _fields(offset["offset"])) for offset in found["offsets"]
    ]
    print_table(("partition", "offset"), rows)


@app.command("plugins")
def plugins(
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Include converters and transforms.")
    ] = False,
    url: Url = WORKER,
    as_json: AsJson = False,
) -> None:
    """List the installed connectors.

    [dim]ottla connect plugins
    ottla connect plugins --all --json[/dim]
    """
    found = ConnectRest(url).get("connector-plugins", connectorsOnly=_word(not every))
    if as_json:
        print_json(found)
        return
    print_table(
        ("class", "type", "version"),
        [(escape(plugin["class"]), plugin["type"], plugin.get("version", "")) for plugin in found],
    )


@app.command("validate")
def validate(
    file: Annotated[Path, typer.Argument(help="JSON, or a properties file.", metavar="FILE")],
    *,
    url: Url = WORKER,
    as_json: AsJson = False,
) -> None:
    """Validate the config in a file without creating a connector.

    [dim]ottla connect validate orders.json[/dim]
    """
    from ottla.connect.connector_files import read_connector_file
    from ottla.connect.errors import ConfigException

    try:
        wanted = dict(read_connector_file(file).config)
    except ConfigException as error:
        raise ToolError(str(error)) from None
    found = ConnectRest(url).validation(wanted)
    if as_json:
        print_json(found)
        return
    rows = [
        (escape(definition["value"]["name"]), escape(message))
        for definition in found["configs"]
        for message in definition["value"]["errors"]
    ]
    if rows:
        print_table(("setting", "error"), rows)
        raise typer.Exit(1)
    print_line("[green]The config is valid.[/]")
    _print_misspelled(wanted, found)


@app.command("worker")
def worker(
    properties: Annotated[
        str | None,
        typer.Argument(help="A properties file.", metavar="[connect-distributed.properties]"),
    ] = None,
    *,
    bootstrap_server: Bootstrap = "",
    port: Annotated[
        int, typer.Option(help="The REST port: 8083; 0 for a free one.", show_default=False)
    ] = -1,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "",
    group_id: Annotated[str, typer.Option(help="Workers of one group share connectors.")] = "",
    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://...")] = "",
    override: Annotated[
        list[str], typer.Option("--override", help="Set a property.", metavar="NAME=VALUE")
    ] = [],  # noqa: B006  typer copies it
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
) -> None:
    """Start a worker; workers of one group share the connectors.

    [dim]ottla connect worker
    ottla connect worker -b kafka:9092 --port 8084
    ottla connect worker connect-distributed.properties[/dim]
    """
    require_spark("ottla connect worker")
    from ottla.connect.errors import ConnectException
    from ottla.connect.worker_process import log_to_terminal, run_worker_process

    config = dict(read_properties(properties)) if properties else {}
    config |= {name: value or "" for name, value in map(_pair, override)}
    given = {
        "bootstrap.servers": bootstrap_server,
        "group.id": group_id,
        "ottla.connect.spark.master": master,
    }
    config |= {name: value for name, value in given.items() if value}
    if host or port >= 0:
        config["listeners"] = f"http://{host or '127.0.0.1'}:{8083 if port < 0 else port}"
    config.setdefault("bootstrap.servers", "localhost:9092")
    log_to_terminal(verbose)
    try:
        code = run_worker_process(config, alone=False)
    except ConnectException as error:
        raise ToolError(str(error)) from None
    raise typer.Exit(code)


def _colored(state: str) -> str:
    return f"[{COLORS.get(state, 'default')}]{state}[/]" if state else ""


def _tasks(tasks: list[dict[str, Any]]) -> str:
    """`2 RUNNING, 1 FAILED`"""
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task["state"]] = counts.get(task["state"], 0) + 1
    return ", ".join(f"{count} {_colored(state)}" for state, count in counts.items())


def _print_misspelled(config: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
    from ottla.connect.validation import misspelled

    for sentence in misspelled(config, infos):
        print_line(f"[yellow]warning[/] {escape(sentence)}")


def _fields(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    return escape(", ".join(f"{name}={value}" for name, value in found.items()))


def _pair(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"{text}: expected NAME=VALUE")
    return name.strip(), value.strip() or None


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _read(path: Path) -> Any:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise ToolError(f"--alter {path}: {error}") from None
