"""Schemas parsed with their references, and kept: most are asked for again."""

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


class ParsedSchemas:
    """For one thread: that of the state."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, tuple[tuple[str, str], ...], bool], ParsedSchema]
        self._kept = OrderedDict()

    def parse(
        self, kind: str, text: str, references: dict[str, str], *, strict: bool = True
    ) -> ParsedSchema:
        """RegistryError 42201 if it is none."""
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
        """Of a version that is stored, however it came there."""
        texts = referenced_texts(state, schema.subject, schema.references)
        return self.parse(schema.kind, schema.text, texts, strict=False)

    def normal(self, kind: str, text: str, references: dict[str, str]) -> str:
        try:
            return normalize(kind, text, references)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None

    def resolved(self, kind: str, text: str, references: dict[str, str]) -> str:
        """The text with what it refers to inside it."""
        return self.formatted(kind, text, references, RESOLVED)

    def formatted(self, kind: str, text: str, references: dict[str, str], name: str) -> str:
        try:
            return formatted(kind, text, references, name)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None


def resolved_references(
    state: RegistryState, subject: str, references: Sequence[Reference]
) -> list[SchemaReference]:
    """With version -1 as the latest one; RegistryError 42201 where there is no such version."""
    resolved = []
    for each in references:
        where = relative_to(subject, each.subject)
        found = (
            state.latest(where) if each.version == LATEST else state.version(where, each.version)
        )
        if found is None or found.deleted:
            raise invalid_schema(
                f'Invalid schema: No schema reference found for subject "{each.subject}" and'
                f" version {each.version}"
            )
        resolved.append(SchemaReference(each.name, each.subject, found.version))
    return resolved


def referenced_texts(
    state: RegistryState, subject: str, references: Sequence[Reference], depth: int = 0
) -> dict[str, str]:
    """Name to text, also of what they refer to: each behind those that it needs."""
    if depth > DEPTH_MAX:
        raise invalid_schema(f"Invalid schema: references are nested deeper than {DEPTH_MAX}")
    texts: dict[str, str] = {}
    for each in references:
        found = state.version(relative_to(subject, each.subject), each.version)
        if found is None:
            raise invalid_schema(
                f'Invalid schema: No schema reference found for subject "{each.subject}" and'
                f" version {each.version}"
            )
        texts |= referenced_texts(state, found.subject, found.references, depth + 1)
        texts[each.name] = found.text
    return texts
