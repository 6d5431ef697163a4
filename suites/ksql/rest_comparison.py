"""What a server answered beside what a case expects, by the rules of ksqlDB's own runner. Pure.

Only what a case names is compared. The columns of a query's rows are compared as a whole, in any
order of rows unless the case asks for theirs; everything else place by place.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from google.protobuf import text_format

from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.schemas.schema_types import parse

STARTS_WITH = "|starts_with"
STATEMENT = "{STATEMENT}"
ERROR_TYPES = {
    "KsqlStatementErrorMessage": "statement_error",
    "KsqlErrorMessage": "",  # that type and its subtypes
}
DOUBLE_DELTA = 0.000_001


def admin_differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any], statement: str
) -> Iterator[str]:
    yield from _differences(expected, actual, statement, "admin", None)


def query_differences(
    expected: Sequence[Mapping[str, Any]],
    actual: Sequence[Mapping[str, Any]],
    *,
    is_ordered: bool,
) -> Iterator[str]:
    if len(expected) != len(actual):
        yield f"row count: expected {len(expected)}, got {len(actual)}: {_short(actual)}"
        return
    rows: tuple[list[Any], list[Any]] | None = None if is_ordered else ([], [])
    for number, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        yield from _differences(wanted, found, "", f"query[{number}]", rows)
    if rows is not None:
        yield from _row_differences(*rows)


def message_differences(
    expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Rows as messages: the case has them as text, in any order."""
    if len(expected) != len(actual):
        yield f"message count: expected {len(expected)}, got {len(actual)}: {_short(actual)}"
        return
    schema = expected[0]["header"]["protoSchema"]
    if actual[0]["header"]["protoSchema"] != schema:
        yield f"protoSchema: expected {schema}, got {_short(actual[0])}"
        return
    message_class = MessageTypes(parse("PROTOBUF", schema, {})).by_indexes((0,))
    wanted = sorted(sorted(item["row"].splitlines()) for item in expected if "row" in item)
    found = sorted(
        sorted(_message_text(message_class, message["row"]["protobufBytes"]).splitlines())
        for message in actual
        if "row" in message
    )
    if wanted != found:
        yield f"messages: expected {_short(wanted)}, got {_short(found)}"
    ends = [[row for row in rows if "finalMessage" in row] for rows in (expected, actual)]
    if ends[0] != ends[1]:
        yield f"message at the end: expected {ends[0]}, got {ends[1]}"


def _message_text(message_class: Any, data: str) -> str:
    message = message_class.FromString(base64.b64decode(data))
    text: str = text_format.MessageToString(message)
    return text


def _row_differences(wanted: list[Any], found: list[Any]) -> Iterator[str]:
    left = list(found)
    for row in wanted:
        same = next((candidate for candidate in left if is_same(row, candidate)), None)
        if same is None:
            yield f"row: expected {_short(row)}, left of the answer: {_short(left)}"
            return
        left.remove(same)


def _differences(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    statement: str,
    path: str,
    rows: tuple[list[Any], list[Any]] | None,
) -> Iterator[str]:
    for written, wanted in expected.items():
        name = written.removesuffix(STARTS_WITH)
        here = f"{path}->{name}"
        if not isinstance(actual, Mapping) or name not in actual:
            yield f"{here}: missing in {_short(actual)}"
            continue
        found = actual[name]
        if isinstance(wanted, Mapping):
            yield from _differences(wanted, found, statement, here, rows)
        elif rows is not None and name == "columns" and "->row->" in here:
            rows[0].append(wanted)
            rows[1].append(found)
        elif written.endswith(STARTS_WITH):
            if not str(found).startswith(wanted):
                yield f"{here}: expected {wanted}..., got {found}"
        else:
            if isinstance(wanted, str):
                wanted = wanted.replace(STATEMENT, statement)
            if not is_same(wanted, found):
                yield f"{here}: expected {_short(wanted)}, got {_short(found)}"


def is_same(wanted: Any, found: Any) -> bool:
    """As Java's equals: 1 is not 1.0, and 1.0 is not 1.00."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(
            is_same(item, found[name]) for name, item in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(is_same, wanted, found))
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, Decimal):
        return bool(wanted == found) and _digits(wanted, found)
    return bool(wanted == found)


def _digits(one: Decimal, other: Decimal) -> bool:
    """A double may be written with an exponent or without."""
    places = [int(number.as_tuple().exponent) for number in (one, other)]
    return places[0] == places[1] or max(places) > 0


def error_differences(
    expected: Mapping[str, Any], status: int, error: Mapping[str, Any], statement: str
) -> Iterator[str]:
    if "status" in expected and expected["status"] != status:
        yield f"status: expected {expected['status']}, got {status}: {_short(error)}"
    type_ = ERROR_TYPES.get(expected.get("type", "").rpartition(".")[2], "")
    if type_ and error.get("@type") != type_:
        yield f"error type: expected {type_}, got {error.get('@type')}"
    if type_ == "statement_error" and statement not in error.get("statementText", ""):
        yield f"statementText: expected {statement}, got {error.get('statementText')}"
    if expected.get("message", "") not in error.get("message", ""):
        yield f"error message: expected {expected['message']!r}, got {error.get('message')!r}"


def record_differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    for name in ("key", "value"):
        if not matches(expected.get(name), actual[name]):
            yield f"record {name}: expected {_short(expected.get(name))}, got {_short(actual)}"
    if "timestamp" in expected and expected["timestamp"] != actual["timestamp"]:
        yield f"record time: expected {expected['timestamp']}, got {actual['timestamp']}"


def matches(wanted: Any, found: Any) -> bool:
    """Values of records: numbers by value, names of fields in any case."""
    if isinstance(wanted, dict):
        if isinstance(found, list):  # a MAP in Protobuf
            found = {item["key"]: item["value"] for item in found}
        if not isinstance(found, dict) or len(wanted) != len(found):
            return False
        return all(
            matches(item, found.get(name, found.get(name.upper()))) for name, item in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(map(matches, wanted, found))
        )
    if isinstance(wanted, (int, float, Decimal)) and not isinstance(wanted, bool):
        if not isinstance(found, (int, float, Decimal)) or isinstance(found, bool):
            return False
        return abs(float(wanted) - float(found)) < DOUBLE_DELTA
    return type(wanted) is type(found) and bool(wanted == found)


def _short(value: Any, limit: int = 300) -> str:
    text = re.sub(r"Decimal\('([^']*)'\)", r"\1", str(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."
