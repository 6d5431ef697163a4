"""ottla rest-users: the users' file of the SQL's and of Connect's REST."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.kafka.tool import ToolError
from ottla.cli.output import said
from ottla.cli.password import ask_password
from ottla.config import parse_properties
from ottla.rest.users import ADMIN, hash_password

app = typer.Typer(
    help="""Users of the REST of `ottla sql-server`, `ottla connect worker` and `ottla registry`.

[dim]ottla rest-users add users.properties ann --role admin
ottla rest-users add users.properties rob --role read-only
ottla rest-users remove users.properties rob[/dim]
""",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The users' file.", metavar="FILE")]
Name = Annotated[str, typer.Argument(help="The user.", metavar="NAME")]


@app.command("add")
def add(
    file: File,
    name: Name,
    *,
    role: Annotated[
        list[str], typer.Option("--role", help="admin, read-only, or one of your own.")
    ] = [ADMIN],  # noqa: B006
    password: Annotated[
        str,
        typer.Option(envvar="OTTLA_REST_PASSWORD", help="Asked for if it is not given."),
    ] = "",
) -> None:
    """Add a user, or give one another password and other roles.

    [dim]ottla rest-users add users.properties ann
    ottla rest-users add users.properties rob --role read-only[/dim]
    """
    if not name or any(each in name for each in ":=,# \t\n") or any("," in each for each in role):
        raise ToolError("a name has no spaces, and none of : = , #; a role has no comma")
    password = password or ask_password("Password", twice=True)
    users = _users(file)
    users[name] = ",".join([hash_password(password), *role])
    _write(file, users)
    said(f"User {name} is in {file}, with the roles {', '.join(role)}.")


@app.command("remove")
def remove(file: File, name: Name) -> None:
    """Take a user away; servers that run notice it at once.

    [dim]ottla rest-users remove users.properties rob[/dim]
    """
    users = _users(file)
    if users.pop(name, None) is None:
        raise ToolError(f"{file} has no user {name}")
    _write(file, users)
    said(f"User {name} is no longer in {file}.")


def _users(file: Path) -> dict[str, str]:
    try:
        return parse_properties(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise ToolError(f"{file} can't be read: {error}") from None


def _write(file: Path, users: dict[str, str]) -> None:
    """Whole or not at all, and for its owner alone."""
    text = "".join(f"{name}={value}\n" for name, value in users.items())
    new = file.with_name(f".{file.name}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
        new.replace(file)
    except OSError as error:
        raise ToolError(f"{file} can't be written: {error.strerror}") from None
