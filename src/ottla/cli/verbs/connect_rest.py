"""The REST client of the verbs for Connect workers: failures are ToolErrors with a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.cli.kafka.tool import ToolError
from ottla.cli.verbs.rest_login import GIVEN, RestLogin
from ottla.client import connect_client


class ConnectRest:
    def __init__(self, url: str) -> None:
        try:
            bare, login, tls = (GIVEN.get() or RestLogin()).at(url)
            self._rest = connect_client.ConnectClient(bare, login=login, tls=tls)
        except connect_client.InvalidWorkerUrl as error:
            raise ToolError(f"--url {error}") from None

    def get(self, *path: str, **query: Any) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """The worker's answer, or None for a status without a body."""
        try:
            return self._rest.ask(method, *path, body=body, **query)
        except connect_client.ConnectStatusError as error:
            raise ToolError(str(error)) from None
        except connect_client.ConnectWorkerUnreachable as error:
            raise ToolError(
                f"{error} `ottla connect worker` starts one; --url gives another address."
            ) from None

    def validation(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The worker's answer to config/validate: each setting with its value and errors."""
        kind = str(config.get("connector.class", "")).rpartition(".")[2] or "Connector"
        found: dict[str, Any] = self.ask(
            "PUT", "connector-plugins", kind, "config", "validate", body=dict(config)
        )
        return found
