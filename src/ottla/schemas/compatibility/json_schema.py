"""JSON Schema: does the reader's schema accept every value that the writer's schema accepts?

The rules are Confluent's. In three places they, and so this code, are more lenient than logic: a
required property with a default counts as readable, a schema without `type` has the type that its
keywords imply, and branches of `oneOf` are taken to exclude each other.
"""

from __future__ import annotations

from ottla.schemas.compatibility.json_arrays import array_differences
from ottla.schemas.compatibility.json_difference import JsonDifference
from ottla.schemas.compatibility.json_objects import object_differences
from ottla.schemas.compatibility.json_values import types_of, value_differences
from ottla.schemas.compatibility.matching import matching_size
from ottla.schemas.compatibility.pairs import PairComparison
from ottla.schemas.json_schema.node import JsonNode

_SUMS = ("anyOf", "oneOf")


def unreadable(
    reader: JsonNode, writer: JsonNode, reader_name: str, writer_name: str, *, lenient: bool
) -> list[str]:
    """Why the reader refuses something that the writer accepts; empty if it does not."""
    found = JsonComparison(lenient=lenient).check(reader, writer, "#")
    return [difference.message(reader_name, writer_name) for difference in found]


class JsonComparison(PairComparison[JsonNode, JsonDifference]):
    def __init__(self, *, lenient: bool) -> None:
        super().__init__()
        self.lenient = lenient

    def differences(self, reader: JsonNode, writer: JsonNode, path: str) -> list[JsonDifference]:
        new, old = reader.followed(), writer.followed()
        if new.accepts_everything or old.accepts_nothing:
            return []
        if new.accepts_nothing:
            return [JsonDifference("TYPE_CHANGED", path, "nothing is accepted")]
        new_parts, old_parts = new.parts(), old.parts() or [old]
        if len(new_parts) == 1 and len(old_parts) == 1:
            if new_parts[0] is reader and old_parts[0] is writer:
                return self._single(reader, writer, path)
            return self.compare(new_parts[0], old_parts[0], path)
        return self._product(new_parts, old_parts, path)

    def _product(self, new: list[JsonNode], old: list[JsonNode], path: str) -> list[JsonDifference]:
        """Each demand of the new schema must be guaranteed by some part of the old one."""
        found: list[JsonDifference] = []
        for demand in new:
            reasons = [self.compare(demand, part, path) for part in old]
            if any(not reason for reason in reasons):
                continue
            if len(old) == 1 or demand.kind == old[0].kind == "plain":
                found += reasons[0]
            elif len(new) > len(old):
                found.append(JsonDifference("PRODUCT_TYPE_EXTENDED", path))
            else:
                found.append(JsonDifference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path))
        return found

    def _single(self, new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
        if new.kind in _SUMS:
            return self._to_sum(new, old, path)
        if old.kind in _SUMS:
            return [
                difference
                for branch in old.children(old.kind)
                for difference in self.compare(new, branch, path)
            ]
        if new.kind == "not" and old.kind == "not":
            return self._negations(new, old, path)
        if new.kind == "not":
            return [JsonDifference("NOT_TYPE_EXTENDED", path)]
        if new.kind == "if":
            same = new.raw == old.raw
            return [] if same else [JsonDifference("CONDITION_CHANGED", path)]
        if old.kind != "plain":
            return [JsonDifference("TYPE_CHANGED", path, f"was {old.kind}")]
        return self._plain(new, old, path)

    def _to_sum(self, new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
        branches = new.children(new.kind)
        where = f"{path}/{new.kind}"
        if old.kind in _SUMS:
            return self._sums(branches, old.children(old.kind), where)
        types = old.get("type")
        pieces = [old]
        if isinstance(types, list) and len(types) > 1:
            pieces = [old.typed(name) for name in types]
        for piece in pieces:
            if all(self.compare(branch, piece, where) for branch in branches):
                return [JsonDifference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", where)]
        return []

    def _sums(self, new: list[JsonNode], old: list[JsonNode], path: str) -> list[JsonDifference]:
        if len(old) > len(new):
            return [JsonDifference("SUM_TYPE_NARROWED", path, f"{len(old)} before, {len(new)} now")]
        # Most updates keep the branches' order, so not all pairs need a comparison.
        if all(
            not self.compare(mine, branch, path) for mine, branch in zip(new, old, strict=False)
        ):
            return []
        fitting = [
            [index for index, mine in enumerate(new) if not self.compare(mine, branch, path)]
            for branch in old
        ]
        if matching_size(fitting) < len(old):
            return [JsonDifference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path)]
        return []

    def _negations(self, new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
        excluded, excluded_before = new.child("not"), old.child("not")
        assert excluded is not None
        assert excluded_before is not None
        if self.compare(excluded_before, excluded, f"{path}/not"):
            return [JsonDifference("NOT_TYPE_EXTENDED", f"{path}/not")]
        return []

    def _plain(self, new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
        found = value_differences(new, old, path)
        if any(difference.type.startswith("TYPE_") for difference in found):
            return found
        types = types_of(old)
        if "object" in types:
            found += object_differences(self, new, old, path)
        if "array" in types:
            found += array_differences(self, new, old, path)
        return found
