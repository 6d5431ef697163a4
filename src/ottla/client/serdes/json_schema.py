"""JsonSchema: JSON text with schemas from a registry.

    Producer(servers, value=JsonSchema(Order, registry="http://localhost:8081"))

`JsonSchema(Order)` writes and reads instances of a dataclass or a Pydantic model;
`JsonSchema(schema=text)` and `JsonSchema()` read plain JSON values, the latter with their schema,
so that they can be written again. Every value is validated against its schema when it is written
and when it is read; `json.fail.invalid.schema=false` turns that off.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ottla.client.serdes.generic_values import SCALARS, CarriedSchema, carrying
from ottla.client.serdes.read_plan import Convert, ReadPlan, chained
from ottla.client.serdes.registry_serde import Decode, Encode, RegistrySerde, ValueSchema

if TYPE_CHECKING:
    from ottla.client.schema_registry import RegisteredSchema
    from ottla.schemas.schema_types import ParsedSchema

T = TypeVar("T")


class JsonSchema(RegistrySerde[T]):
    kind: ClassVar[str] = "JSON"

    def _schema_of(self, value: Any) -> ValueSchema | None:
        from ottla.schemas.models.json_schema import json_text
        from ottla.schemas.models.python_type import describe, is_model

        if self.schema:
            return ValueSchema(self.schema, references=self.references)
        of = self._type if self._type is not None else type(value)
        if self._type is None and not is_model(of) and of not in SCALARS:
            return self._carried(value)
        return ValueSchema(json_text(describe(of)))

    def _encoder(
        self, schema: ParsedSchema, value: Any, apply: Convert | None
    ) -> tuple[bytes, Encode]:
        to_plain = chained(_converters(type(value))[0], apply)
        check = self._check(schema)
        dumps = _dumps()

        def encode(model: Any) -> bytes:
            plain = model if to_plain is None else to_plain(model)
            if check is not None:
                check(plain)
            return dumps(plain)

        return b"", encode

    def _decoder(self, registered: RegisteredSchema, header: bytes, plan: ReadPlan) -> Decode:
        import orjson

        by = (plan.latest or registered) if plan.migrates else registered
        schema, apply = self._registry.parsed(by), plan.apply
        carried = CarriedSchema(self.kind, by.text, by.references)
        is_generic = self._is_generic
        from_plain = None if self._type is None else _converters(self._type)[1]
        check = self._check(schema)
        loads = orjson.loads

        def decode(data: bytes, position: int) -> Any:
            plain = loads(memoryview(data)[position:])
            if apply is not None:
                plain = apply(plain)
            if check is not None:
                check(plain)
            if is_generic:
                return carrying(plain, carried)
            return plain if from_plain is None else from_plain(plain)

        return decode

    def _check(self, schema: ParsedSchema) -> Convert | None:
        from ottla.schemas.json_schema.validator import JsonValidator

        return JsonValidator(schema).check if self._settings.validate else None


def _converters(of: Any) -> tuple[Convert | None, Convert | None]:
    """From instances to JSON values and back; None for types that need no conversion."""
    from ottla.schemas.models.python_type import describe, is_model, is_pydantic
    from ottla.schemas.models.values import JSON, ModelValues

    if is_pydantic(of):
        return lambda model: model.model_dump(mode="json", by_alias=True), of.model_validate
    if not is_model(of):
        return None, None
    values = ModelValues(describe(of), JSON, str)
    return values.to_plain, values.from_plain


def _dumps() -> Callable[[Any], bytes]:
    import orjson

    def dumps(plain: Any) -> bytes:
        try:
            return orjson.dumps(plain)
        except TypeError:  # an integer of more than 64 bits, or a type that JSON lacks
            return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()

    return dumps
