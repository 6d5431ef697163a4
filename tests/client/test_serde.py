from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ottla.client.serde import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    HeaderList,
    Serde,
    SerializationError,
    String,
)
from ottla.client.serde_arguments import (
    WORDS,
    deserializers_of,
    reading_serdes,
    serialized,
    serializers_of,
    writing_serdes,
)


@given(some.integers(-(2**63), 2**63 - 1))
def test_a_long_is_eight_bytes_big_endian_as_java_writes_it(number: int) -> None:
    data = LONG.to_bytes(number)
    assert data == number.to_bytes(8, "big", signed=True)
    assert LONG.from_bytes(data) == number


@given(some.text())
def test_a_string_survives_a_round_trip(text: str) -> None:
    assert STRING.from_bytes(STRING.to_bytes(text)) == text


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (BYTES, b"\x00\xff", b"\x00\xff"),
        (INTEGER, -2, b"\xff\xff\xff\xfe"),
        (SHORT, 258, b"\x01\x02"),
        (DOUBLE, 1.5, b"\x3f\xf8" + bytes(6)),
        (BOOLEAN, True, b"\x01"),
        (JSON, {"a": [1, None]}, b'{"a":[1,null]}'),
        (UUID, uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
    ],
)
def test_values_and_their_bytes(serde: Serde[object], value: object, data: bytes) -> None:
    assert serde.to_bytes(value) == data
    assert serde.from_bytes(data) == value


@pytest.mark.parametrize(("serde", "data"), [(LONG, b"1234567"), (BOOLEAN, b"\x02"), (JSON, b"{")])
def test_malformed_bytes_are_a_value_error(serde: Serde[object], data: bytes) -> None:
    with pytest.raises(ValueError):
        serde.from_bytes(data)


def test_a_number_that_does_not_fit_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="40000"):
        SHORT.to_bytes(40000)
    with pytest.raises(SerializationError, match="1e\\+300"):
        FLOAT.to_bytes(1e300)


def writer_of(of: object) -> Callable[[Any], bytes]:
    plain = serializers_of(writing_serdes(BYTES, of, {}))
    assert plain is not None
    return plain[1]


def reader_of(of: object) -> Callable[[bytes], Any]:
    plain = deserializers_of(reading_serdes(BYTES, of, {}))
    assert plain is not None
    return plain[1]


def test_a_type_stands_for_its_serde() -> None:
    assert writer_of(str)("ä") == "ä".encode()
    assert reader_of(int)(bytes(7) + b"\x05") == 5
    assert writer_of(dict)({"a": 1}) == b'{"a":1}'


def test_a_callable_is_a_serde_of_one_direction() -> None:
    def shout(value: int) -> bytes:
        return b"%d!" % value

    assert writer_of(shout) is shout
    assert reader_of(len) is len
    with pytest.raises(TypeError, match="one direction only"):
        writing_serdes(BYTES, shout, {})[1].deserialize("t", b"3!")


def test_a_non_serde_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no serde for complex"):
        writing_serdes(BYTES, complex, {})
    with pytest.raises(TypeError, match="not 'text'"):
        writing_serdes(BYTES, "text", {})


class Loud(String):
    """Encodes by the name of the topic, and decodes like String."""

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        return f"{topic}: {value}".encode()


class HeaderSerde(Serde[bytes]):
    uses_headers = True

    def serialize_with_headers(
        self, topic: str, headers: HeaderList, value: bytes | None
    ) -> bytes | None:
        headers.append(("tag", b"1"))
        return value

    @staticmethod
    def to_bytes(value: bytes) -> bytes:
        return value

    from_bytes = to_bytes


def test_two_callables_make_a_serde_of_either_shape() -> None:
    serde = Serde.of(str.encode, bytes.decode)
    assert writer_of(serde) is str.encode
    assert reader_of(serde) is bytes.decode
    assert serde.serialize("t", "x") == b"x"
    assert serde.deserialize("t", None) is None


def test_a_serde_that_sees_topic_or_headers_is_never_called_without() -> None:
    assert serializers_of(writing_serdes(STRING, Loud(), {})) is None
    assert deserializers_of(reading_serdes(STRING, Loud(), {})) is not None
    assert serializers_of(writing_serdes(HeaderSerde(), STRING, {})) is None
    headers: HeaderList = []
    serdes = writing_serdes(HeaderSerde(), Loud(), {})
    assert serialized(serdes, "t", b"k", "v", headers) == (b"k", b"t: v")
    assert headers == [("tag", b"1")]


class Upper(String):
    def to_bytes(self, value: str) -> bytes:  # type: ignore[override]
        return value.upper().encode()


def test_a_subclass_with_bytes_of_its_own_writes_them_with_a_topic_as_well() -> None:
    assert writer_of(Upper())("x") == Upper().serialize("t", "x") == b"X"
    assert Upper().deserialize("t", b"X") == "X"


def test_a_serde_without_methods_is_reported() -> None:
    with pytest.raises(NotImplementedError, match="neither to_bytes nor serialize"):
        Serde[str]().serialize("t", "x")


@pytest.mark.parametrize("value", [2**64 + 1, [-(2**80) - 1, 18446744073709551615], {"n": 2**70}])
def test_json_keeps_every_digit_of_an_integer(value: object) -> None:
    assert JSON.from_bytes(JSON.to_bytes(value)) == value
    assert JSON.to_bytes(value) == json.dumps(value, separators=(",", ":")).encode()


@dataclass
class Visit:
    at: datetime
    id: uuid.UUID
    tags: frozenset[str]
    score: float = math.nan


def test_json_is_the_same_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = Visit(datetime(2026, 1, 2, 3, 4, 5), uuid.UUID(int=7), frozenset("a"))
    value = {"visits": [visit], "text": "NaN ä", "most": -math.inf}
    data = JSON.to_bytes(value)
    monkeypatch.setattr("ottla.client.serdes.json_text._orjson", lambda: None)
    assert JSON.to_bytes(value) == data
    assert JSON.from_bytes(data)["visits"][0]["score"] is None
    with pytest.raises(SerializationError, match="cannot represent"):
        JSON.to_bytes([object()])


def test_error_messages_are_those_of_javas_deserializers() -> None:
    assert {"string", "long", "integer", "short", "double", "float", "uuid"} <= set(WORDS)
