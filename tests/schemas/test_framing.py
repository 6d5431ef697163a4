"""Confluent's wire format, with confluent-kafka as the oracle."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from ottla.schemas.framing import (
    FramingError,
    RecordSchemaId,
    indexes_bytes,
    read_indexes,
    split_frame,
    with_guid,
    with_id,
)


@given(st.integers(0, 2**31 - 1), st.binary())
def test_an_id_stands_before_the_payload(id: int, payload: bytes) -> None:
    framed = with_id(id, payload)
    assert framed == SchemaId("AVRO", id).id_to_bytes() + payload
    name, position = split_frame(framed)
    assert (name, framed[position:]) == (RecordSchemaId(id), payload)


@given(st.uuids(), st.binary())
def test_a_guid_stands_before_the_payload(guid: uuid.UUID, payload: bytes) -> None:
    framed = with_guid(str(guid), payload)
    assert framed == SchemaId("AVRO", guid=str(guid)).guid_to_bytes() + payload
    name, position = split_frame(framed)
    assert (name, framed[position:]) == (RecordSchemaId(0, str(guid)), payload)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=8))
def test_message_indexes_are_zig_zag_varints(indexes: list[int]) -> None:
    data = indexes_bytes(indexes)
    assert read_indexes(b"x" + data + b"payload", 1) == (tuple(indexes), 1 + len(data))
    assert with_id(7, data) == SchemaId("PROTOBUF", 7, None, indexes).id_to_bytes()


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0", b"\1" + bytes(15), b"{}", b"\2abcdefgh"])
def test_bytes_without_a_schema_are_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        split_frame(data)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\xff\xff", b"\x02", b"\xfe\1\0"])
def test_indexes_that_do_not_end_are_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        read_indexes(data, 0)
