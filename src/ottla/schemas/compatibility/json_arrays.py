"""Arrays: items by position, the schema of all others, and `contains`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.schemas.compatibility.json_difference import JsonDifference
from ottla.schemas.json_schema.node import JsonNode

if TYPE_CHECKING:
    from ottla.schemas.compatibility.json_schema import JsonComparison


def array_differences(
    comparison: JsonComparison, new: JsonNode, old: JsonNode, path: str
) -> list[JsonDifference]:
    now, now_rest = _items(new)
    before, before_rest = _items(old)
    found: list[JsonDifference] = []
    one_for_all = _has_one_for_all(old)
    for position in range(max(len(now), len(before))):
        where = f"{path}/items/{position}"
        mine = now[position] if position < len(now) else now_rest
        if one_for_all:
            if not mine.accepts_everything:
                found.append(JsonDifference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", where))
            continue
        theirs = before[position] if position < len(before) else before_rest
        reasons = comparison.compare(mine, theirs, where)
        if reasons and position < min(len(now), len(before)):
            found += reasons
        elif reasons:
            found.append(_item(position < len(now), mine, theirs, where))
    found += _rest(comparison, now_rest, before_rest, f"{path}/items")
    if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
        found.append(JsonDifference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems"))
    return found + _contains(comparison, new, old, path)


def _has_one_for_all(node: JsonNode) -> bool:
    """One schema for all items, and none by position. Confluent's registry treats such an array as
    open, because it looks at `additionalItems` alone, which is missing."""
    if node.has_prefix_items or isinstance(node.get("items"), list):
        return False
    return (
        node.child("items") is not None
        and node.child("additionalItems") is None
        and node.child("unevaluatedItems") is None
    )


def _items(node: JsonNode) -> tuple[list[JsonNode], JsonNode]:
    """The schemas by position, and the schema of all others."""
    words: tuple[str, ...]
    if node.has_prefix_items:
        prefix, words = node.children("prefixItems"), ("items", "unevaluatedItems")
    elif isinstance(node.get("items"), list):
        prefix, words = node.children("items"), ("additionalItems", "unevaluatedItems")
    else:
        prefix, words = [], ("items", "additionalItems", "unevaluatedItems")
    for word in words:
        rest = node.child(word)
        if rest is not None:
            return prefix, rest
    return prefix, node.at(True)


def _item(added: bool, mine: JsonNode, theirs: JsonNode, path: str) -> JsonDifference:
    if added:
        is_open = theirs.accepts_everything
        kind = "TO_OPEN" if is_open else "NOT_COVERED_BY_PARTIALLY_OPEN"
        return JsonDifference(f"ITEM_ADDED_{kind}_CONTENT_MODEL", path)
    kind = "FROM_CLOSED" if mine.accepts_nothing else "NOT_COVERED_BY_PARTIALLY_OPEN"
    return JsonDifference(f"ITEM_REMOVED_{kind}_CONTENT_MODEL", path)


def _rest(
    comparison: JsonComparison, now: JsonNode, before: JsonNode, path: str
) -> list[JsonDifference]:
    reasons = comparison.compare(now, before, path)
    if not reasons:
        return []
    if now.accepts_nothing:
        return [JsonDifference("ADDITIONAL_ITEMS_REMOVED", path)]
    if before.accepts_everything:
        return [JsonDifference("ADDITIONAL_ITEMS_NARROWED", path)]
    return reasons


def _contains(
    comparison: JsonComparison, new: JsonNode, old: JsonNode, path: str
) -> list[JsonDifference]:
    now, before = new.child("contains"), old.child("contains")
    if now is None:
        return []
    if before is None:
        return [JsonDifference("CONTAINS_ADDED", f"{path}/contains")]
    return comparison.compare(now, before, f"{path}/contains")
