from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ottla.client.serde import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    WORDS,
    Serde,
    deserializer_of,
    serializer_of,
)


@given(some.integers(-(2**63), 2**63 - 1))
def test_a_long_is_eight_bytes_big_endian_as_java_writes_it(number: int) -> None:
    data = LONG.to_bytes(number)
    assert data == number.to_bytes(8, "big", signed=True)
    assert LONG.from_bytes(data) == number


@given(some.text())
def test_a_string_comes_back(text: str) -> None:
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
def test_bytes_that_make_no_sense_are_a_value_error(serde: Serde[object], data: bytes) -> None:
    with pytest.raises(ValueError):
        serde.from_bytes(data)


def test_a_number_that_does_not_fit_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="40000"):
        SHORT.to_bytes(40000)


def test_a_type_stands_for_its_serde() -> None:
    assert serializer_of(str)("ä") == "ä".encode()
    assert deserializer_of(int)(bytes(7) + b"\x05") == 5
    assert serializer_of(dict)({"a": 1}) == b'{"a":1}'


def test_a_callable_is_taken_as_it_is() -> None:
    assert serializer_of(lambda value: repr(value).encode())(3) == b"3"
    assert deserializer_of(len)(b"four") == 4


def test_what_is_no_serde_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no serde for complex"):
        serializer_of(complex)
    with pytest.raises(TypeError, match="not 'text'"):
        serializer_of("text")  # type: ignore[arg-type]


def test_the_words_are_those_of_javas_deserializers() -> None:
    assert {"string", "long", "integer", "short", "double", "float", "uuid"} <= set(WORDS)
