"""The line format of kafka-console-producer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ottla.cli.kafka.tool import ToolError

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class InputLine:
    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader:
    """Splits lines into headers, key and value."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._parse_key = _truth(properties, "parse.key")
        self._parse_headers = _truth(properties, "parse.headers")
        self._ignore_error = _truth(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self.null_marker = properties.get("null.marker")
        self.line_number = 0
        same = "must not be equal to each other"
        if self._parse_headers and self._headers_delimiter == self._headers_separator:
            raise ToolError(f"headers.delimiter and headers.separator {same}")
        if self._parse_headers and self._headers_separator == self._header_key_separator:
            raise ToolError(f"headers.separator and headers.key.separator {same}")

    def close(self) -> None:
        """This reader holds no resources."""

    def lines(self, source: BinaryIO) -> Iterator[InputLine]:
        prompt = sys.stdin.isatty() and sys.stdout.isatty()
        while True:
            if prompt:
                print(">", end="", flush=True)
            raw = source.readline()
            if not raw:
                return
            self.line_number += 1
            yield self.cut(raw.rstrip(b"\n").removesuffix(b"\r").decode(errors="surrogateescape"))

    def cut(self, text: str) -> InputLine:
        headers: Headers = []
        if self._parse_headers:
            part, text = self._split(text, self._headers_delimiter, "No header delimiter found")
            headers = self._headers(part)
        key: bytes | None = None
        if self._parse_key:
            part, text = self._split(text, self._key_separator, "No key separator found")
            key = None if part is None else self.key_bytes(part, headers)
        return InputLine(key, self.value_bytes(text, headers), headers)

    def key_bytes(self, text: str, headers: Headers) -> bytes | None:
        return self._bytes(text)

    def value_bytes(self, text: str, headers: Headers) -> bytes | None:
        return self._bytes(text)

    def _split(self, text: str, separator: str, complaint: str) -> tuple[str | None, str]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignore_error:
            return None, text
        raise ToolError(
            f"org.apache.kafka.common.KafkaException: {complaint} on line number"
            f" {self.line_number}: '{text}'"
        )

    def _headers(self, text: str | None) -> Headers:
        if text is None or not text or text == self.null_marker:
            return []
        headers: Headers = []
        for pair in text.split(self._headers_separator):
            name, found, value = pair.partition(self._header_key_separator)
            if found:
                headers.append((name, self._bytes(value)))
            elif self._ignore_error:
                headers.append((pair, None))
            else:
                raise ToolError(
                    "org.apache.kafka.common.KafkaException: No header key separator found in"
                    f" pair '{pair}' on line number {self.line_number}"
                )
        return headers

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self.null_marker else text.encode(errors="surrogateescape")


def _truth(properties: dict[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"
