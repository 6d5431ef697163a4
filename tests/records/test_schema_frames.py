"""Schema frames: the quick scan finds the same as decoding the records."""

from __future__ import annotations

import random

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch, read_header
from ottla.records.record import Record, parse_records, read_payload, write_records
from ottla.records.schema_frames import distinct_schema_frames, frames_of
from ottla.schemas.framing import with_guid, with_id

GUIDS = [f"00000000-0000-0000-0000-{n:012x}" for n in range(3)]  # alike in their first bytes


def some_bytes(chance: random.Random) -> bytes | None:
    size = chance.choice((0, 1, 4, 60, 64, 200, 9000, 20_000))
    tail = bytes(size)
    return chance.choice(
        (
            None,
            b"",
            b"\0\0\0",
            b"bare" + tail,
            with_id(chance.randrange(5), tail),
            with_guid(chance.choice(GUIDS), tail),
        )
    )


def some_headers(chance: random.Random, *, named: bool) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = [("trace", b"x" * chance.randrange(100))]
    names = ("__key_schema_id", "__value_schema_id", "__other_schema_id")
    if named:
        found += [(chance.choice(names), some_bytes(chance)) for _ in range(3)]
    return found * chance.randrange(2)


@pytest.mark.parametrize("seed", range(40))
def test_the_walk_finds_the_frames_of_every_record(seed: int) -> None:
    chance = random.Random(seed)
    records = [
        Record(
            timestamp=chance.choice((5, 1 << 20, 1 << 40)),
            key=some_bytes(chance),
            value=some_bytes(chance),
            headers=some_headers(chance, named=seed % 2 == 0),
        )
        for _ in range(chance.choice((1, 3, 150)))
    ]
    data = build_batch(records)
    header = read_header(data, 0)
    payload = read_payload(data, header)
    pairs = [frames_of(record) for record in parse_records(payload, header)]
    keys = {key for key, _ in pairs if key is not None}
    values = {value for _, value in pairs if value is not None}
    found = distinct_schema_frames(payload, header.record_count, keys=True, values=True)
    assert found == (keys, values)
    assert distinct_schema_frames(payload, header.record_count, keys=False, values=True) == (
        set(),
        values,
    )
    assert distinct_schema_frames(payload, header.record_count, keys=True, values=False) == (
        keys,
        set(),
    )


def test_the_last_header_with_an_id_counts_and_a_null_has_none() -> None:
    first, last = ("__value_schema_id", with_id(6, b"")), ("__value_schema_id", with_id(7, b""))
    records = [
        Record(timestamp=1, key=b"k", value=b"bare", headers=[first, last, (last[0], None)]),
        Record(timestamp=1, key=b"k", value=None, headers=[first]),
    ]
    assert [frames_of(record) for record in records] == [(b"k", with_id(7, b"")), (b"k", None)]
    payload = write_records(records, [0, 1], 1)
    assert distinct_schema_frames(payload, 2, keys=True, values=True) == ({b"k"}, {with_id(7, b"")})


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("seed", range(200))
def test_broken_payloads_are_refused_or_read(seed: int, named: bool) -> None:
    chance = random.Random(seed)
    headers = [[("__value_schema_id", with_id(n, b""))] if named else [] for n in range(9)]
    records = [Record(timestamp=1, value=with_id(n, b"x"), headers=headers[n]) for n in range(9)]
    whole = bytearray(write_records(records, range(9), 1))
    for _ in range(chance.randrange(1, 4)):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    cut = bytes(whole[: chance.choice((len(whole), chance.randrange(len(whole))))])
    code = ErrorCode.INVALID_RECORD
    try:
        distinct_schema_frames(cut, 9, keys=True, values=True)
    except KafkaError as error:
        code = error.code
    assert code == ErrorCode.INVALID_RECORD
