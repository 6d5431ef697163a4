"""One schema in a document, and its parts, all of which must hold for a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.schemas.invalid_schema import InvalidSchema

if TYPE_CHECKING:
    from ottla.schemas.json_schema.document import JsonDocument

# From this draft on, keywords beside a $ref are in force.
_DRAFT_WITH_SIBLINGS = 2019
# From this draft on, `prefixItems` is the tuple and `items` the rest.
_DRAFT_WITH_PREFIX = 2020

_CONDITION = ("if", "then", "else")
_COMBINED = frozenset(("$ref", "allOf", "anyOf", "oneOf", "not", *_CONDITION))
_PLAIN = frozenset(
    (
        *("type", "enum", "const", "multipleOf", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("required", "minProperties", "maxProperties", "propertyNames"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "uniqueItems"),
        *("minItems", "maxItems", "contains", "minContains", "maxContains"),
    )
)
# Keywords that stay with the plain part though they restrict nothing.
_NOTES = frozenset(("connect.type", "default"))


class JsonNode:
    __slots__ = ("_parts", "_typed", "document", "raw", "target")

    def __init__(self, raw: Any, document: JsonDocument) -> None:
        self.raw = raw
        self.document = document
        self.target: JsonNode | None = None
        self._parts: list[JsonNode] | None = None
        self._typed: dict[str, JsonNode] = {}

    def get(self, keyword: str, default: Any = None) -> Any:
        return self.raw.get(keyword, default) if isinstance(self.raw, dict) else default

    def at(self, raw: Any) -> JsonNode:
        """The node of a subschema."""
        return self.document.node(raw)

    def child(self, keyword: str) -> JsonNode | None:
        raw = self.get(keyword)
        return self.at(raw) if isinstance(raw, dict | bool) else None

    def children(self, keyword: str) -> list[JsonNode]:
        raw = self.get(keyword)
        return [self.at(item) for item in raw] if isinstance(raw, list) else []

    def named(self, keyword: str) -> dict[str, JsonNode]:
        """Schemas by name, as in `properties`."""
        raw = self.get(keyword)
        if not isinstance(raw, dict):
            return {}
        return {name: self.at(item) for name, item in raw.items() if not isinstance(item, list)}

    @property
    def accepts_everything(self) -> bool:
        if isinstance(self.raw, bool):
            return self.raw
        return not any(word in _PLAIN or word in _COMBINED for word in self.raw)

    @property
    def accepts_nothing(self) -> bool:
        if isinstance(self.raw, bool):
            return not self.raw
        inner = self.child("not") if len(self.raw) == 1 else None
        return inner is not None and inner.accepts_everything

    @property
    def has_prefix_items(self) -> bool:
        return self.document.draft >= _DRAFT_WITH_PREFIX

    @property
    def kind(self) -> str:
        """The kind of a node that is one part: anyOf, oneOf, not, if, or plain."""
        kinds = ("anyOf", "oneOf", "not", "if")
        return next((word for word in kinds if self.get(word) is not None), "plain")

    def followed(self) -> JsonNode:
        """The node at the end of a chain of bare references."""
        node = self
        while node.target is not None and node._only_refers:
            node = node.target
        return node

    def check_cycle(self) -> None:
        seen: set[int] = set()
        node = self
        while node.target is not None and node._only_refers:
            if id(node) in seen:
                raise InvalidSchema(f"$ref {node.raw['$ref']} refers to itself")
            seen.add(id(node))
            node = node.target

    @property
    def _only_refers(self) -> bool:
        if self.document.draft < _DRAFT_WITH_SIBLINGS:
            return True
        return not any(
            word in _PLAIN or (word in _COMBINED and word != "$ref") for word in self.raw
        )

    def parts(self) -> list[JsonNode]:
        """Schemas that must all hold: plain keywords, members of allOf, each combinator."""
        if self._parts is None:
            self._parts = self._split()
        return self._parts

    def typed(self, name: str) -> JsonNode:
        """The same schema, for one of its types only."""
        if name not in self._typed:
            self._typed[name] = JsonNode({**self.raw, "type": name}, self.document)
        return self._typed[name]

    def _split(self) -> list[JsonNode]:
        if isinstance(self.raw, bool):
            return []
        raw: dict[str, Any] = self.raw
        found: list[JsonNode] = []
        plain = {word: raw[word] for word in raw if word in _PLAIN or word in _NOTES}
        if any(word in _PLAIN for word in plain):
            found.append(self._part(plain))
        if self.target is not None:
            found.append(self.target)
        found += self.children("allOf")
        for word in ("anyOf", "oneOf", "not"):
            if word in raw:
                found.append(self._part({word: raw[word]}))
        if "if" in raw and ("then" in raw or "else" in raw):
            found.append(self._part({word: raw[word] for word in _CONDITION if word in raw}))
        return found

    def _part(self, raw: dict[str, Any]) -> JsonNode:
        """This node itself if it has no other part, so that the splitting ends."""
        used = [word for word in self.raw if word in _PLAIN or word in _COMBINED]
        if len(used) == sum(word not in _NOTES for word in raw):
            return self
        return self.at(raw)
