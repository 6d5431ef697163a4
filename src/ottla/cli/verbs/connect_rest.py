"""A Connect worker's REST, as the verbs ask it: a failure is a ToolError, with what to do."""

from __future__ import annotations

from typing import Any

from ottla.cli.kafka.tool import ToolError
from ottla.cli.verbs.rest_login import GIVEN, RestLogin
from ottla.client import connect_worker


class Rest:
    def __init__(self, url: str) -> None:
        try:
            bare, login, tls = (GIVEN.get() or RestLogin()).at(url)
            self._rest = connect_worker.Rest(bare, login=login, tls=tls)
        except connect_worker.InvalidUrl as error:
            raise ToolError(f"--url {error}") from None

    def get(self, *path: str, **query: Any) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """What the worker answers, or None where it answers with no more than a status."""
        try:
            return self._rest.ask(method, *path, body=body, **query)
        except connect_worker.Refused as error:
            raise ToolError(str(error)) from None
        except connect_worker.Unreachable as error:
            raise ToolError(
                f"{error} `ottla connect worker` starts one; --url names another."
            ) from None
