"""ottla schemas: manages the subjects of a schema registry over its REST API."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from ottla.cli.console import AsJson, print_json, print_line, print_table
from ottla.cli.extras import require_extra
from ottla.cli.kafka.tool import ToolError
from ottla.cli.verbs.incompatibilities import pretty
from ottla.cli.verbs.rest_login import GIVEN, USER_HELP, RestLogin
from ottla.cli.verbs.schema_changes import check, diff, plain_schema, register
from ottla.cli.verbs.schema_options import DEFAULT_URL, Registry, Subject, Version

app = typer.Typer(
    help="""Schemas in a registry: list, show, register, check, diff.

[dim]ottla schemas list
ottla schemas register orders-value order.avsc
ottla schemas show orders-value
ottla schemas check orders-value order-2.avsc   # exit code 1: it may not follow
ottla schemas diff orders-value 1 2
ottla schemas config orders-value --level FULL
ottla schemas --user ann list -r https://registry:8081[/dim]

--registry works with any registry that has Confluent's REST API.
""",
    no_args_is_help=True,
)

USER_VARIABLE: Final = "OTTLA_SCHEMA_REGISTRY_USER"
CONFIG_HELP: Final = "A properties file with basic.auth.user.info, bearer.auth.* and ssl.*"


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
    config: Annotated[
        str | None, typer.Option("--config", help=CONFIG_HELP, metavar="FILE")
    ] = None,
) -> None:
    """The login options in front of a command."""
    require_extra("ottla schemas", "registry")
    token = GIVEN.set(RestLogin(user, config))
    context.call_on_close(lambda: GIVEN.reset(token))


@app.command("list")
def list_subjects(
    prefix: Annotated[str, typer.Argument(help="A prefix of their names.")] = "",
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include deleted ones.")] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List subjects, each with its latest version.

    [dim]ottla schemas list
    ottla schemas list orders --json[/dim]
    """
    from ottla.cli.verbs.schema_rest import open_registry

    query: dict[str, Any] = {"latestOnly": "true", "subjectPrefix": prefix}
    if deleted:
        query["deleted"] = "true"
    with open_registry(registry) as client:
        found = sorted(
            client.get("schemas", query=query), key=lambda subject: str(subject["subject"])
        )
    if as_json:
        print_json(found)
        return
    if not found:
        print_line(
            "There are no schemas yet." if not prefix else f"No subject begins with {prefix}."
        )
        return
    rows = [
        (
            f"[cyan]{escape(subject['subject'])}[/]",
            subject.get("schemaType") or "AVRO",
            subject["version"],
            subject["id"],
            "deleted" if subject.get("deleted") else "",
        )
        for subject in found
    ]
    columns = ["subject", "type", ">version", ">id", ""]
    if not any(row[4] for row in rows):
        columns, rows = columns[:4], [row[:4] for row in rows]  # type: ignore[misc]
    print_table(columns, rows)


@app.command("show")
def show(
    subject: Annotated[str, typer.Argument(help="The subject.", metavar="[SUBJECT]")] = "",
    *,
    version: Version = "latest",
    id: Annotated[int, typer.Option("--id", help="Show a schema by its id instead.")] = 0,
    text: Annotated[bool, typer.Option("--text", help="Print only the registered text.")] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show a schema: its text, id, type, level and references.

    [dim]ottla schemas show orders-value
    ottla schemas show orders-value --version 1 --text > order.avsc
    ottla schemas show --id 7[/dim]
    """
    from ottla.cli.verbs.schema_rest import open_registry

    if bool(subject) == bool(id):
        raise ToolError("give a subject or --id")
    with open_registry(registry) as client:
        found = client.by_id(id) if id else client.version(subject, version)
        level = "" if id else client.level(subject)
        uses = client.get("schemas", "ids", str(id), "versions") if id else []
        versions = [] if id else client.versions(subject)
    if text:
        print(found.text)
    elif as_json:
        about = {"level": level, "versions": versions} if subject else {"subjects": uses}
        print_json({**plain_schema(found), **about})
    else:
        of = ", ".join(f"{use['subject']} version {use['version']}" for use in uses)
        title = of or f"{subject} version {found.version} of {len(versions)}"
        print_line(
            f"[bold]{escape(title)}[/]  {found.kind}, id {found.id}"
            + (f", {level}" if level else "")
        )
        for reference in found.references:
            place = f"{escape(reference.subject)} version {reference.version}"
            print_line(f"  {escape(reference.name)} is {place}")
        print(pretty(found.kind, found.text))


app.command("register")(register)
app.command("check")(check)
app.command("diff")(diff)


@app.command("config")
def config(
    subject: Annotated[str, typer.Argument(help="A subject; default: all.")] = "",
    *,
    level: Annotated[
        str, typer.Option("--level", help="BACKWARD, FULL_TRANSITIVE, NONE, ...")
    ] = "",
    unset: Annotated[
        bool, typer.Option("--unset", help="Reset to the level of all subjects.")
    ] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show or set the compatibility level.

    [dim]ottla schemas config
    ottla schemas config orders-value --level FULL
    ottla schemas config orders-value --unset[/dim]
    """
    from ottla.cli.verbs.schema_rest import open_registry

    path = ("config", subject) if subject else ("config",)
    of = escape(subject) or "all subjects without their own level"
    with open_registry(registry) as client:
        if level:
            client.ask("PUT", *path, body={"compatibility": level.upper()})
        elif unset:
            client.ask("DELETE", *path)
        found = client.level(subject)
    if as_json:
        print_json({"subject": subject, "level": found})
    else:
        print_line(f"{found}  {of}")


@app.command("delete")
def delete(
    subject: Subject,
    *,
    version: Annotated[str, typer.Option("--version", "-v", help="Only this version.")] = "",
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Hard delete; needs a soft delete first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    registry: Registry = DEFAULT_URL,
) -> None:
    """Delete a subject, or one version of it.

    Records with their ids stay readable, until --permanent.

    [dim]ottla schemas delete orders-value --version 2
    ottla schemas delete orders-value --yes
    ottla schemas delete orders-value --permanent --yes[/dim]
    """
    from ottla.cli.verbs.schema_rest import open_registry

    what = f"version {version} of {subject}" if version else f"all versions of {subject}"
    if not yes:
        typer.confirm(f"Delete {what}{' for good' if permanent else ''}?", abort=True)
    with open_registry(registry) as client:
        gone = client.delete(subject, version or None, permanent=permanent)
    print_line(
        f"deleted {escape(subject)} version{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
    )
