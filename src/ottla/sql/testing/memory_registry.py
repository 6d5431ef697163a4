"""A schema registry in memory, for serdes and statements. All schemas are compatible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.schema_registry import (
    LATEST,
    RegisteredSchema,
    SchemaRegistry,
    SchemaRegistryError,
)
from ottla.schemas.schema_types import Reference

SUBJECT_NOT_FOUND: Final = 40401
SCHEMA_NOT_FOUND: Final = 40403
NOT_FOUND: Final = 404


class MemoryRegistry(SchemaRegistry):
    def __init__(self) -> None:
        super().__init__("http://memory")
        self._ids: dict[int, RegisteredSchema] = {}
        self._subjects: dict[str, list[RegisteredSchema]] = {}

    def by_id(self, id: int, subject: str = "") -> RegisteredSchema:
        found = self._ids.get(id)
        if found is None:
            raise SchemaRegistryError(NOT_FOUND, SCHEMA_NOT_FOUND, f"Schema {id} not found")
        return found

    def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False
    ) -> RegisteredSchema:
        versions = self._subjects.get(subject)
        if not versions:
            words = f"Subject '{subject}' not found."
            raise SchemaRegistryError(NOT_FOUND, SUBJECT_NOT_FOUND, words)
        return versions[-1 if version == LATEST else int(version) - 1]

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
        """Register a schema, with a given `id` if any."""
        present = self._present(subject, kind, text, references)
        if present is not None and id is None:
            return present
        same = (
            schema for schema in self._ids.values() if (schema.kind, schema.text) == (kind, text)
        )
        if id is None:
            known = next(same, None)
            id = known.id if known is not None else max(self._ids, default=0) + 1
        versions = self._subjects.setdefault(subject, [])
        made = RegisteredSchema(id, kind, text, tuple(references), subject, len(versions) + 1)
        versions.append(made)
        self._ids[id] = made
        return made

    def look_up(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        found = self._present(subject, kind, text, references)
        if found is None:
            raise SchemaRegistryError(NOT_FOUND, SCHEMA_NOT_FOUND, "Schema not found")
        return found

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        return [subject for subject in self._subjects if subject.startswith(prefix)]

    def versions(self, subject: str) -> list[int]:
        return [version.version for version in self._subjects.get(subject, ())]

    def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        return [version.version for version in self._subjects.pop(subject, ())]

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The only path that is requested directly: the subjects of a schema id."""
        match path:
            case ("schemas", "ids", id_, "subjects"):
                number = int(id_)
                self.by_id(number)
                return [
                    subject
                    for subject, versions in self._subjects.items()
                    if any(version.id == number for version in versions)
                ]
        raise SchemaRegistryError(NOT_FOUND, NOT_FOUND, f"no such page: {'/'.join(path)}")

    def close(self) -> None:
        """Nothing to close."""

    def _present(
        self, subject: str, kind: str, text: str, references: Sequence[Reference]
    ) -> RegisteredSchema | None:
        wanted = (kind, text, tuple(references))
        versions = self._subjects.get(subject, ())
        return next(
            (
                version
                for version in versions
                if (version.kind, version.text, version.references) == wanted
            ),
            None,
        )
