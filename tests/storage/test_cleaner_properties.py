"""A cleaned log against a dictionary: a consumer ends with the same state, whatever was written."""

from __future__ import annotations

import dataclasses
from typing import Any

from cleaner_kit import CONFIG, compact, put, small_log, table
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_kit import NOW, append, close, marker, read_all

from ottla.records.batch import AppendOrigin
from ottla.storage.cleaner import CleanerConfig, measure_dirt
from ottla.storage.log import Log
from ottla.testing.memory_files import MemoryFiles

KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 70, b"", b"f"])
VALUES = st.one_of(st.none(), st.binary(max_size=30))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8)
CODECS = st.sampled_from([0, 0, 0, 1, 2, 3, 4])

STEPS = st.one_of(
    st.tuples(st.just("put"), PAIRS, CODECS),
    st.tuples(st.just("send"), PAIRS, st.integers(0, 2)),  # an idempotent producer
    st.tuples(st.just("transact"), PAIRS, st.integers(10, 12)),
    st.tuples(st.just("end"), st.booleans(), st.integers(10, 12)),
    st.tuples(st.just("roll"), st.none(), st.none()),
    st.tuples(st.just("clean"), st.integers(0, 3000), st.sampled_from([200, 800, 1 << 20])),
    st.tuples(st.just("reopen"), st.booleans(), st.none()),
)


class Model:
    """The log, and what a reader of committed records must end with."""

    def __init__(self, segment_bytes: int) -> None:
        self.files = MemoryFiles()
        self.config = dataclasses.replace(CONFIG, segment_bytes=segment_bytes)
        self.log: Log = small_log(self.files, self.config)
        self.now_ms = NOW
        self.sequences: dict[int, int] = {}
        # By offset: key, value and the producer of the transaction, if there is one.
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()

    def put(self, pairs: list[tuple[bytes, bytes | None]], codec: int) -> None:
        self.note(put(self.log, *pairs, timestamp=self.now_ms, compression=codec), pairs)

    def send(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        transactional = producer_id >= 10
        first = put(
            self.log, *pairs, timestamp=self.now_ms, producer_id=producer_id, producer_epoch=0,
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        self.sequences[producer_id] = sequence + len(pairs)
        self.note(first, pairs)
        if transactional:
            self.open.setdefault(producer_id, []).extend(range(first, first + len(pairs)))

    def note(self, first: int, pairs: list[tuple[bytes, bytes | None]]) -> None:
        for offset, pair in enumerate(pairs, first):
            self.written[offset] = pair

    def end(self, commit: bool, producer_id: int) -> None:
        offsets = self.open.pop(producer_id, None)
        if offsets is None:
            return
        if not commit:
            self.aborted.update(offsets)
        append(self.log, marker(producer_id, commit=commit), origin=AppendOrigin.COORDINATOR)

    def clean(self, later_ms: int, table_size: int) -> None:
        self.now_ms += later_ms
        limits = CleanerConfig(table_size=table_size, buffer_size=1, bytes_per_second=None)
        unstable = self.log.first_unstable_offset
        stable = self.log.end_offset if unstable is None else unstable
        if measure_dirt(self.log, stable, self.now_ms).dirty_size:
            assert not compact(self.log, now_ms=self.now_ms, limits=limits).failure

    def reopen(self, clean: bool) -> None:
        producers = {p.producer_id: (p.epoch, p.last_sequence) for p in self.log.producers()}
        end_offset = self.log.end_offset
        if clean:
            close(self.log)
        self.log = small_log(self.files, self.config, clean=clean, now_ms=self.now_ms)
        assert self.log.end_offset == end_offset
        found = {p.producer_id: (p.epoch, p.last_sequence) for p in self.log.producers()}
        assert found == producers

    def state(self) -> dict[bytes, bytes]:
        state: dict[bytes, bytes] = {}
        pending = {offset for offsets in self.open.values() for offset in offsets}
        for offset in sorted(self.written):
            key, value = self.written[offset]
            if offset in self.aborted or offset in pending:
                continue
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        return state

    def check(self) -> None:
        log = self.log
        open_now = [(producer, offsets[0]) for producer, offsets in self.open.items()]
        skip = log.aborted(0, log.end_offset) + open_now
        assert table(log, skip) == self.state()
        last = -1
        for record in read_all(log, size_max=200):
            assert record.offset > last
            last = record.offset
            if record.offset in self.written:
                assert (record.key, record.value) == self.written[record.offset]


@settings(max_examples=150, deadline=None)
@given(st.integers(1100, 4000), st.lists(STEPS, min_size=5, max_size=60))
def test_a_consumer_ends_with_the_same_state(
    segment_bytes: int, steps: list[tuple[str, Any, Any]]
) -> None:
    model = Model(segment_bytes)
    for name, first, second in steps:
        if name == "put":
            model.put(first, second)
        elif name in ("send", "transact"):
            model.send(first, second)
        elif name == "end":
            model.end(first, second)
        elif name == "roll":
            model.log.roll(model.now_ms)
        elif name == "clean":
            model.clean(first, second)
            model.check()
        else:
            model.reopen(first)
    for producer_id in list(model.open):
        model.end(True, producer_id)
    model.log.roll(model.now_ms)
    model.clean(5000, 1 << 20)
    model.check()
    active = model.log.segments.active.base_offset
    keys = [r.key for r in read_all(model.log) if r.offset in model.written and r.offset < active]
    assert len(keys) == len(set(keys))
