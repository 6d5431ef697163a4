"""The cases of ksqlDB's rest-query-validation-tests, read from its checkout. No I/O but that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

# A string, or a comment: Jackson is set to take both kinds of comments.
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOPIC = "test_topic"
_QUERY = "SELECT "


@dataclass(frozen=True, slots=True)
class RestCase:
    """`content` is the case as its file has it, with the format filled in."""

    name: str
    content: Mapping[str, Any]

    @property
    def statements(self) -> Sequence[str]:
        """All statements but the queries, which come last."""
        return [text for text in self._texts() if not text.startswith(_QUERY)]

    @property
    def has_push_query(self) -> bool:
        return any(is_push(text) for text in self.queries)

    @property
    def queries(self) -> Sequence[str]:
        return [text for text in self._texts() if text.startswith(_QUERY)]

    def _texts(self) -> list[str]:
        return list(self.content["statements"])

    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]:
        return list(self.content.get("inputs", ()))

    @property
    def outputs(self) -> Sequence[Mapping[str, Any]]:
        return list(self.content.get("outputs", ()))

    @property
    def topics(self) -> Sequence[Mapping[str, Any]]:
        return list(self.content.get("topics", ()))

    @property
    def properties(self) -> Mapping[str, Any]:
        return dict(self.content.get("properties", {}))

    @property
    def responses(self) -> Sequence[Mapping[str, Any]]:
        return list(self.content.get("responses", ()))

    @property
    def error(self) -> Mapping[str, Any] | None:
        return self.content.get("expectedError")

    @property
    def input_waits_for_query(self) -> bool:
        return bool(self.content.get("inputConditions", {}).get("waitForActivePushQuery"))

    @property
    def is_ordered(self) -> bool:
        return bool(self.content.get("outputConditions", {}).get("verifyOrder"))

    @property
    def asks_for_protobuf(self) -> bool:
        return bool(self.content.get("testPullWithProtoFormat"))


def is_push(query: str) -> bool:
    return "EMIT CHANGES" in query.upper() or "EMIT FINAL" in query.upper()


def read_cases(folder: Path) -> Iterator[RestCase]:
    """Each case once for each of its formats, in the order of files and of cases in them."""
    for path in sorted(folder.glob("*.json")):
        for number, found in enumerate(read_json(path.read_text())["tests"]):
            if found.get("enabled") is False:
                continue
            for format_ in found.get("format") or [""]:
                # Each case has its own topics, so no case sees the records of another.
                topic = f"{_TOPIC}_{number}_{format_ or 'x'}".lower()
                ending = f" - {format_}" if format_ else ""
                texts = {"{FORMAT}": format_, _TOPIC: topic}
                content = _with_own_ids(_filled(found, texts), number)
                yield RestCase(f"{path.stem}/{found['name']}{ending}", content)


def _with_own_ids(case: dict[str, Any], number: int) -> dict[str, Any]:
    """Schema ids that no other case uses, because a registry's id never changes its schema."""

    def own(found: re.Match[str]) -> str:
        return f"{found.group(1)}{_own_id(int(found.group(2)), number)}"

    topics = [
        {
            name: _own_id(value, number) if name.endswith("SchemaId") else value
            for name, value in topic.items()
        }
        for topic in case.get("topics", ())
    ]
    statements = [re.sub(r"(?i)(_schema_id\s*=\s*)(\d+)", own, s) for s in case["statements"]]
    return {**case, "topics": topics, "statements": statements}


def _own_id(id_: int, number: int) -> int:
    return id_ * 1000 + number


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in texts.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, dict):
        return {name: _filled(item, texts) for name, item in value.items()}
    return [_filled(item, texts) for item in value] if isinstance(value, list) else value


def read_json(text: str) -> Any:
    """JSON with comments. Numbers with a fraction keep their digits."""

    def kept(found: re.Match[str]) -> str:
        return found.group() if found.group().startswith('"') else " "

    return json.loads(_TOKEN.sub(kept, text), parse_float=Decimal)
