"""A cache of schemas parsed with their references: most are requested again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ottla.registry.registry_error import invalid_schema
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import SchemaReference, StoredSchema
from ottla.registry.subjects import relative_to
from ottla.schemas.schema_types import (
    InvalidSchema,
    ParsedSchema,
    Reference,
    formatted,
    normalize,
    parse,
)

KEPT_MAX: Final = 1000
DEPTH_MAX: Final = 64
LATEST: Final = -1
RESOLVED: Final = "resolved"


class ParsedSchemaCache:
    """Not thread-safe: it belongs to the thread of the state."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, tuple[tuple[str, str], ...], bool], ParsedSchema]
        self._kept = OrderedDict()

    def parse(
        self, kind: str, text: str, references: dict[str, str], *, strict: bool = True
    ) -> ParsedSchema:
        """RegistryError 42201 if the schema is invalid."""
        key = (kind, text, tuple(references.items()), strict)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        try:
            parsed = parse(kind, text, references, strict=strict)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None
        self._kept[key] = parsed
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return parsed

    def of(self, state: RegistryState, schema: StoredSchema) -> ParsedSchema:
        """A stored version, whether or not it would be accepted today."""
        texts = referenced_texts(state, schema.subject, schema.references)
        return self.parse(schema.kind, schema.text, texts, strict=False)

    def normal(self, kind: str, text: str, references: dict[str, str]) -> str:
        try:
            return normalize(kind, text, references)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None

    def resolved(self, kind: str, text: str, references: dict[str, str]) -> str:
        """The text with its references inlined."""
        return self.formatted(kind, text, references, RESOLVED)

    def formatted(self, kind: str, text: str, references: dict[str, str], name: str) -> str:
        try:
            return formatted(kind, text, references, name)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None


def resolved_references(
    state: RegistryState, subject: str, references: Sequence[Reference]
) -> list[SchemaReference]:
    """With -1 replaced by the latest version; RegistryError 42201 for an unknown version."""
    resolved = []
    for reference in references:
        where = relative_to(subject, reference.subject)
        found = (
            state.latest(where)
            if reference.version == LATEST
            else state.version(where, reference.version)
        )
        if found is None or found.deleted:
            raise invalid_schema(
                f'Invalid schema: No schema reference found for subject "{reference.subject}" and'
                f" version {reference.version}"
            )
        resolved.append(SchemaReference(reference.name, reference.subject, found.version))
    return resolved


def referenced_texts(
    state: RegistryState, subject: str, references: Sequence[Reference], depth: int = 0
) -> dict[str, str]:
    """Name to text, of all references in dependency order."""
    if depth > DEPTH_MAX:
        raise invalid_schema(f"Invalid schema: references are nested deeper than {DEPTH_MAX}")
    texts: dict[str, str] = {}
    for reference in references:
        found = state.version(relative_to(subject, reference.subject), reference.version)
        if found is None:
            raise invalid_schema(
                f'Invalid schema: No schema reference found for subject "{reference.subject}" and'
                f" version {reference.version}"
            )
        texts |= referenced_texts(state, found.subject, found.references, depth + 1)
        texts[reference.name] = found.text
    return texts
