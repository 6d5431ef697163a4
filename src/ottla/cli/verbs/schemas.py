"""ottla schemas: the subjects of a schema registry, over its REST."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from ottla.cli.extras import need
from ottla.cli.kafka.tool import ToolError
from ottla.cli.output import AsJson, print_json, print_table, said
from ottla.cli.verbs.rest_login import GIVEN, USER_HELP, RestLogin
from ottla.cli.verbs.schema_changes import check, diff, plain_schema, register
from ottla.cli.verbs.schema_findings import pretty
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

--registry works with any registry that has Confluent's REST.
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
    """What stands before a command: who asks."""
    need("ottla schemas", "registry")
    token = GIVEN.set(RestLogin(user, config))
    context.call_on_close(lambda: GIVEN.reset(token))


@app.command("list")
def list_subjects(
    prefix: Annotated[str, typer.Argument(help="What their names begin with.")] = "",
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted ones too.")] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Subjects, each with its latest version.

    [dim]ottla schemas list
    ottla schemas list orders --json[/dim]
    """
    from ottla.cli.verbs.schema_rest import opened

    query: dict[str, Any] = {"latestOnly": "true", "subjectPrefix": prefix}
    if deleted:
        query["deleted"] = "true"
    with opened(registry) as asked:
        found = sorted(asked.get("schemas", query=query), key=lambda each: str(each["subject"]))
    if as_json:
        print_json(found)
        return
    if not found:
        said("There are no schemas yet." if not prefix else f"No subject begins with {prefix}.")
        return
    rows = [
        (
            f"[cyan]{escape(each['subject'])}[/]",
            each.get("schemaType") or "AVRO",
            each["version"],
            each["id"],
            "deleted" if each.get("deleted") else "",
        )
        for each in found
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
    id: Annotated[int, typer.Option("--id", help="A schema by its id instead.")] = 0,
    text: Annotated[
        bool, typer.Option("--text", help="The text alone, as it is registered.")
    ] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """A schema: its text, id, type, level and references.

    [dim]ottla schemas show orders-value
    ottla schemas show orders-value --version 1 --text > order.avsc
    ottla schemas show --id 7[/dim]
    """
    from ottla.cli.verbs.schema_rest import opened

    if bool(subject) == bool(id):
        raise ToolError("give a subject or --id")
    with opened(registry) as asked:
        found = asked.by_id(id) if id else asked.version(subject, version)
        level = "" if id else asked.level(subject)
        uses = asked.get("schemas", "ids", str(id), "versions") if id else []
        versions = [] if id else asked.versions(subject)
    if text:
        print(found.text)
    elif as_json:
        about = {"level": level, "versions": versions} if subject else {"subjects": uses}
        print_json({**plain_schema(found), **about})
    else:
        of = ", ".join(f"{each['subject']} version {each['version']}" for each in uses)
        title = of or f"{subject} version {found.version} of {len(versions)}"
        said(
            f"[bold]{escape(title)}[/]  {found.kind}, id {found.id}"
            + (f", {level}" if level else "")
        )
        for reference in found.references:
            place = f"{escape(reference.subject)} version {reference.version}"
            said(f"  {escape(reference.name)} is {place}")
        print(pretty(found.kind, found.text))


app.command("register")(register)
app.command("check")(check)
app.command("diff")(diff)


@app.command("config")
def config(
    subject: Annotated[str, typer.Argument(help="A subject; all of them without one.")] = "",
    *,
    level: Annotated[
        str, typer.Option("--level", help="BACKWARD, FULL_TRANSITIVE, NONE, ...")
    ] = "",
    unset: Annotated[bool, typer.Option("--unset", help="Back to what all subjects have.")] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show or set which schemas may follow.

    [dim]ottla schemas config
    ottla schemas config orders-value --level FULL
    ottla schemas config orders-value --unset[/dim]
    """
    from ottla.cli.verbs.schema_rest import opened

    path = ("config", subject) if subject else ("config",)
    of = escape(subject) or "all subjects without a level of their own"
    with opened(registry) as asked:
        if level:
            asked.ask("PUT", *path, body={"compatibility": level.upper()})
        elif unset:
            asked.ask("DELETE", *path)
        found = asked.level(subject)
    if as_json:
        print_json({"subject": subject, "level": found})
    else:
        said(f"{found}  {of}")


@app.command("delete")
def delete(
    subject: Subject,
    *,
    version: Annotated[str, typer.Option("--version", "-v", help="This version alone.")] = "",
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For good; delete without it first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    registry: Registry = DEFAULT_URL,
) -> None:
    """Delete a subject, or one version of it.

    Records that name its ids stay readable, until --permanent.

    [dim]ottla schemas delete orders-value --version 2
    ottla schemas delete orders-value --yes
    ottla schemas delete orders-value --permanent --yes[/dim]
    """
    from ottla.cli.verbs.schema_rest import opened

    what = f"version {version} of {subject}" if version else f"all versions of {subject}"
    if not yes:
        typer.confirm(f"Delete {what}{' for good' if permanent else ''}?", abort=True)
    with opened(registry) as asked:
        gone = asked.delete(subject, version or None, permanent=permanent)
    said(f"deleted {escape(subject)} version{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}")
