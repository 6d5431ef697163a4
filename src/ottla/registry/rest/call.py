"""One request, as handlers see it, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.registry.registry_error import RegistryError
from ottla.registry.schema_registry import SchemaRegistry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import check_subject


@dataclass(slots=True)
class RestCall:
    """`words` are the path's variable parts, decoded; a query's names may come several times."""

    registry: SchemaRegistry
    words: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes = b""

    @property
    def state(self) -> RegistryState:
        return self.registry.state

    def subject(self, *, alias: bool = False) -> str:
        """Of the path, as it is stored. `alias`: the subject that it stands for."""
        name = check_subject(self.words["subject"])
        return self.state.alias(name) if alias else name

    def optional_subject(self) -> str | None:
        """None is global."""
        return check_subject(self.words["subject"]) if "subject" in self.words else None

    def number(self, name: str) -> int:
        """A number of the path: what is none is no path that we have."""
        try:
            return int(self.words[name])
        except ValueError:
            raise RegistryError(404, "HTTP 404 Not Found") from None

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def text(self, name: str) -> str:
        return self.query[name][0] if name in self.query else ""

    @property
    def qualifies_references(self) -> bool:
        return self.text("referenceFormat") == "qualified"

    def integer(self, name: str, default: int) -> int:
        try:
            return int(self.text(name) or default)
        except ValueError:
            raise RegistryError(404, "HTTP 404 Not Found") from None

    def fields(self) -> dict[str, Any]:
        """The body, which is an object."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError as error:
            raise RegistryError(400, f"Malformed request: {error}") from None
        except RecursionError:
            raise RegistryError(400, "Malformed request: too deeply nested") from None
        if not isinstance(found, dict):
            raise RegistryError(400, "Malformed request: the body is not an object")
        return found


@dataclass(frozen=True, slots=True)
class RawText:
    """A schema's text as it is, without JSON around it."""

    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
