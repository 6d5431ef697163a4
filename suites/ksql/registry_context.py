"""A context of the schema registry for each case, so that no case sees the ids of another."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
from ottla.schemas.schema_types import Reference


class RegistryContext(SchemaRegistry):
    """`register` takes an id, as the registry in memory does."""

    def accept_any_schema(self) -> None:
        """Records of a case may have a schema that is incompatible with the declared one."""
        self.ask("PUT", "config", body={"compatibility": "NONE"})

    def register(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
        id: int | None = None,
    ) -> RegisteredSchema:
        if id is None or self._has(subject):
            return super().register(subject, kind, text, references, normalize=normalize)
        self.ask("PUT", "mode", subject, body={"mode": "IMPORT"})
        body = {"schemaType": kind, "schema": text, "id": id, "version": 1}
        body["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in references
        ]
        self.ask("POST", "subjects", subject, "versions", body=body)
        self.ask("DELETE", "mode", subject)
        return RegisteredSchema(id, kind, text, tuple(references), subject, 1)

    def _has(self, subject: str) -> bool:
        """Two topics may refer to one schema. The registry imports into new subjects only."""
        return any(name.rpartition(":")[2] == subject for name in self.subjects(subject))
