"""One request, in the form that handlers get, and their raw answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.auth.acls import AclOperation
from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.registry_error import RegistryError
from ottla.registry.schema_request import SchemaRequest, read_schema_request
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subject_access import SubjectRights
from ottla.registry.subjects import GLOBAL_CONTEXT, check_subject, context_name, relative_to


@dataclass(slots=True)
class RestCall:
    """`words` are the path's variables, decoded; a query's names may occur several times."""

    registry: KafkaSchemaRegistry
    words: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes = b""
    rights: SubjectRights | None = None  # None: everything is allowed

    # Rights

    def may(self, operation: AclOperation, subject: str) -> bool:
        return self.rights is None or self.rights.may(operation, subject)

    def check(self, operation: AclOperation, subject: str) -> None:
        if self.rights is not None:
            self.rights.check(operation, subject)

    def check_registry(self, operation: AclOperation) -> None:
        if self.rights is not None:
            self.rights.check_registry(operation)

    def check_scope(self, operation: AclOperation, subject: str | None) -> None:
        """`subject` may be a context, `:.sales:`; None, and the context of all, are global."""
        if subject is None or subject == GLOBAL_CONTEXT:
            self.check_registry(operation)
        else:
            self.check(operation, subject)

    def readable(self, schemas: Sequence[StoredSchema]) -> list[StoredSchema]:
        return [schema for schema in schemas if self.may(AclOperation.READ, schema.subject)]

    # The request

    @property
    def state(self) -> RegistryState:
        return self.registry.state

    def subject(self, *, alias: bool = False) -> str:
        """The path's subject, in its stored form. `alias`: the subject that it stands for."""
        name = check_subject(self.words["subject"])
        return self.state.alias(name) if alias else name

    def optional_subject(self) -> str | None:
        """None is global."""
        return check_subject(self.words["subject"]) if "subject" in self.words else None

    def context(self) -> str:
        """The path's context, as the subject that stands for all of it."""
        return f":{context_name(self.words['context'])}:"

    def schema_request(self, subject: str) -> SchemaRequest:
        """The schema in the body. Its author must be able to read what it refers to, because
        messages and answers may show parts of that."""
        request = read_schema_request(self.fields())
        if not request.text:  # that of the previous version, which the answer shows
            self.check(AclOperation.READ, subject)
        for reference in request.references:
            self.check(AclOperation.READ, relative_to(subject, reference.subject))
        return request

    def number(self, name: str) -> int:
        """A number in the path; anything else is an unknown path."""
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
        """The body, which must be an object."""
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
    """A schema's bare text, without JSON around it."""

    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
