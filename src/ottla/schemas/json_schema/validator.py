"""Validates values against a JSON Schema by jsonschema-rs. Nothing is fetched."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from ottla.schemas.schema_types import ParsedSchema

_CLASSES: dict[int, Any] = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}
_DRAFTS: dict[int, int] = {
    4: jsonschema_rs.Draft4,
    6: jsonschema_rs.Draft6,
    7: jsonschema_rs.Draft7,
    2019: jsonschema_rs.Draft201909,
    2020: jsonschema_rs.Draft202012,
}


class InvalidValue(ValueError):
    """A value that violates its schema; the message says where and why."""


class JsonValidator:
    def __init__(self, schema: ParsedSchema) -> None:
        document = schema.body
        draft = document.draft
        references = [(name, raw) for name, raw in document.references.items()]
        registry = jsonschema_rs.Registry(references, draft=_DRAFTS[draft], retriever=_refuse)
        self._validator = _CLASSES[draft](document.root.raw, registry=registry, retriever=_refuse)

    def check(self, value: Any) -> None:
        """Raises InvalidValue."""
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            path = "".join(f"[{part!r}]" for part in error.instance_path)
            raise InvalidValue(f"{path or 'the value'}: {error.message}") from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched: give that schema as a reference")
