"""The login at a REST server: `user:password@` in the URL, --user, a file, a variable."""

from __future__ import annotations

import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

import typer

from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.password import ask_password
from ottla.client.connect_client import Login
from ottla.client.tls import client_context

USER_INFO: Final = "basic.auth.user.info"
USER_HELP: Final = "USER or USER:PASSWORD; the command asks for a missing password."
CONFIG_HELP: Final = f"A properties file with {USER_INFO} and ssl.*"

Config = Annotated[str | None, typer.Option("--config", help=CONFIG_HELP, metavar="FILE")]


@dataclass(frozen=True, slots=True)
class RestLogin:
    """The login of a command line; `at` adds that of a URL."""

    user: str = ""
    config: str | None = None

    def at(self, url: str) -> tuple[str, Login | None, ssl.SSLContext | None]:
        """The URL without its login, the login, and TLS for https."""
        settings = read_properties(self.config)
        bare, written = split_login(url)
        login = _login(self.user) or written or _login(settings.get(USER_INFO, ""))
        stores = {name: value for name, value in settings.items() if name.startswith("ssl.")}
        secure = bare.startswith("https:") and bool(stores)
        return bare, login, client_context(stores) if secure else None

    def user_info(self) -> str:
        """USER:PASSWORD of --user, or nothing."""
        login = _login(self.user)
        return f"{login.user}:{login.password}" if login else ""


GIVEN: ContextVar[RestLogin | None] = ContextVar("rest_login", default=None)
"""The login in front of a command: `ottla connect --user ann list`."""


def split_login(url: str) -> tuple[str, Login | None]:
    """`https://ann:secret@host` without its login, and the login."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.username is None:
        return url, None
    address = parts.netloc.rpartition("@")[2]
    login = Login(unquote(parts.username), unquote(parts.password or ""))
    return parts._replace(netloc=address).geturl(), login


def _login(text: str) -> Login | None:
    user, colon, password = text.partition(":")
    if not user:
        return None
    if not colon:
        password = ask_password(f"Password of {user}")
    if not password:
        raise ToolError(f"--user {user}: there is no password")
    return Login(user, password)
