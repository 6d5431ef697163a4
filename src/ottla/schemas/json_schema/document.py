"""A JSON Schema with its references. Every `$ref` is resolved locally; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ottla.schemas import json_text
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.json_schema.keywords import children, is_schema, keyword_problem
from ottla.schemas.json_schema.node import JsonNode
from ottla.schemas.limits import NODES_MAX, check_limits

DRAFTS = {
    "http://json-schema.org/schema": 7,
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
DRAFT_DEFAULT = 7


class JsonDocument:
    """One document, its references, and the node of each schema in them."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        check_limits(text, references)
        root = json_text.read_json(text)
        if not is_schema(root):
            raise InvalidSchema("a JSON Schema is an object or a boolean")
        self.draft = draft_of(root)
        self._resources: dict[str, Any] = {}
        self._nodes: dict[int, JsonNode] = {}
        self._unresolved: list[tuple[JsonNode, str]] = []
        self.references = {name: json_text.read_json(other) for name, other in references.items()}
        for name, other in self.references.items():
            self._walk(other, name)
        self._walk(root, "")
        self.root = self.node(root)
        while self._unresolved:
            node, base = self._unresolved.pop()
            node.target = self._resolve(node.raw["$ref"], base)
        for node in self._nodes.values():
            node.check_cycle()

    def node(self, raw: Any) -> JsonNode:
        """The node of a schema in this document; the same object each time."""
        node = self._nodes.get(id(raw))
        if node is None:
            # The node keeps `raw` alive, so its id stays unique.
            node = self._nodes[id(raw)] = JsonNode(raw, self)
        return node

    def _walk(self, document: Any, name: str) -> None:
        """Check the shape of keywords, index ids and anchors, collect each $ref with its base."""
        self._resources.setdefault(name, document)
        todo: list[tuple[Any, str, str]] = [(document, name, "#")]
        while todo:
            schema, base, path = todo.pop()
            if len(self._nodes) > NODES_MAX:
                raise InvalidSchema(f"the schema has more than {NODES_MAX} schemas in it")
            if not is_schema(schema):
                raise InvalidSchema(
                    f"{path} is not a schema but {json_text.write_json(schema)[:80]}"
                )
            node = self.node(schema)
            if isinstance(schema, bool):
                continue
            problem = keyword_problem(schema)
            if problem is not None:
                raise InvalidSchema(f"{path}: {problem}")
            base = self._index(schema, base)
            if "$ref" in schema:
                self._unresolved.append((node, base))
            todo += [(child, base, f"{path}/{at}") for at, child in children(schema)]

    def _resolve(self, reference: str, base: str) -> JsonNode:
        found, at = self._find(reference, base)
        # A pointer may lead to a place where no keyword has a schema, such as "#/components/x".
        if id(found) not in self._nodes:
            self._walk(found, at)
        return self.node(found)

    def _index(self, schema: dict[str, Any], base: str) -> str:
        own = schema.get("$id", schema.get("id"))
        if isinstance(own, str):
            if own.startswith("#"):
                self._resources.setdefault(f"{base}{own}", schema)
            else:
                base = _join(base, own)
                self._resources.setdefault(base, schema)
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(word), str):
                self._resources.setdefault(f"{base}#{schema[word]}", schema)
        return base

    def _find(self, reference: str, base: str) -> tuple[Any, str]:
        whole = _join(base, reference)
        for candidate in (whole, reference):
            address, fragment = urldefrag(candidate)
            if address in DRAFTS:
                return True, address  # a meta-schema: not followed
            if candidate in self._resources:
                return self._resources[candidate], address
            if address in self._resources and (not fragment or fragment.startswith("/")):
                return _pointed(self._resources[address], fragment, reference), address
        raise InvalidSchema(
            f"$ref {reference} is not in the schema. Nothing is fetched from elsewhere: register "
            "that schema and give it as a reference of this name"
        )


def draft_of(root: Any) -> int:
    name = root.get("$schema") if isinstance(root, dict) else None
    if name is None:
        return DRAFT_DEFAULT
    return DRAFTS.get(str(name).rstrip("#"), DRAFT_DEFAULT)


def _join(base: str, reference: str) -> str:
    if reference.startswith("#"):
        return f"{urldefrag(base)[0]}{reference}".removesuffix("#")
    try:
        return urljoin(base, reference).removesuffix("#")
    except ValueError as error:
        raise InvalidSchema(f"{reference} is not a URI: {error}") from error


def _pointed(document: Any, pointer: str, reference: str) -> Any:
    found = document
    for part in unquote(pointer).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise InvalidSchema(f"$ref {reference} points at nothing: there is no {key}")
    if not is_schema(found):
        raise InvalidSchema(f"$ref {reference} points at something that is not a schema")
    return found
