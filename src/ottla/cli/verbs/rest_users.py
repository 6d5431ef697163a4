"""ottla rest-users: edits the users' file of the REST servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.console import print_line
from ottla.cli.kafka.tool import ToolError
from ottla.cli.password import ask_password
from ottla.config import parse_properties
from ottla.rest.users import ADMIN, hash_password

app = typer.Typer(
    help="""Users of the REST servers of ottla sql-server, ottla connect worker and ottla registry.

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
        list[str],
        typer.Option("--role", help="admin, read-only, or any other role.", metavar="ROLE"),
    ] = [ADMIN],  # noqa: B006
    password: Annotated[
        str,
        typer.Option(
            envvar="OTTLA_REST_PASSWORD", help="The command asks for it if it is not given."
        ),
    ] = "",
) -> None:
    """Add a user, or replace a user's password and roles.

    [dim]ottla rest-users add users.properties ann
    ottla rest-users add users.properties rob --role read-only[/dim]
    """
    if not name or any(item in name for item in ":=,# \t\n") or any("," in item for item in role):
        raise ToolError("a name has no spaces, and none of : = , #; a role has no comma")
    password = password or ask_password("Password", twice=True)
    users = _users(file)
    users[name] = ",".join([hash_password(password), *role])
    _write(file, users)
    print_line(f"User {name} is in {file}, with the roles {', '.join(role)}.")


@app.command("remove")
def remove(file: File, name: Name) -> None:
    """Remove a user; running servers notice it at once.

    [dim]ottla rest-users remove users.properties rob[/dim]
    """
    users = _users(file)
    if users.pop(name, None) is None:
        raise ToolError(f"{file} has no user {name}")
    _write(file, users)
    print_line(f"User {name} is no longer in {file}.")


def _users(file: Path) -> dict[str, str]:
    try:
        return parse_properties(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise ToolError(f"{file} can't be read: {error}") from None


def _write(file: Path, users: dict[str, str]) -> None:
    """Atomically, and readable only by its owner."""
    text = "".join(f"{name}={value}\n" for name, value in users.items())
    new = file.with_name(f".{file.name}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
        new.replace(file)
    except OSError as error:
        raise ToolError(f"{file} can't be written: {error.strerror}") from None
