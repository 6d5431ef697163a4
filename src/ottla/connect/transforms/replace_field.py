"""ReplaceField: drops or renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import ConfigException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    StructPlan,
    filled,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)
from ottla.connect.validators import no_duplicates


def parse_renames(mappings: list[str]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.split(":")
        if len(parts) != 2 or not parts[1]:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


class ReplaceField(KeyOrValueTransform):
    """Drops or renames fields."""

    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("exclude", ConfigType.LIST, "", validator=no_duplicates,
                    doc="Fields to drop; takes precedence over include.")
            .define("include", ConfigType.LIST, "", validator=no_duplicates,
                    doc="The only fields to keep; empty for all.")
            .define("renames", ConfigType.LIST, "", doc="New names: old:new,other:another.",
                    validator=lambda name, value: (parse_renames(value), None)[1])
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._exclude = frozenset(settings["exclude"])
        self._include = frozenset(settings["include"])
        self._renames = parse_renames(settings["renames"])
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: SchemaCache[tuple[StructPlan, list[int]]] = SchemaCache()

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            renames, mapping = self._renames, require_map(value, "field replacement")
            updated = {renames.get(n, n): v for n, v in mapping.items() if self._keeps(n)}
            return self.changed(record, None, updated)
        struct = require_struct(value, "field replacement")
        schema = struct.schema
        plan, kept = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        values = struct.values_in_order if plan.defaults is None else filled(struct, plan.defaults)
        made = Struct.of(plan.schema, [values[index] for index in kept])
        return self.changed(record, plan.schema, made)

    def _plan(self, schema: Schema) -> tuple[StructPlan, list[int]]:
        kept = [field for field in schema.fields if self._keeps(field.name)]
        fields = [(self._renames.get(field.name, field.name), field.schema) for field in kept]
        plan = StructPlan(with_fields(schema, fields), schema if self._fill else None)
        return plan, [field.index for field in kept]


class ReplaceFieldKey(ReplaceField):
    of_key = True
