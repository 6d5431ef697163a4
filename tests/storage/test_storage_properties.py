"""A log is always a prefix of what was written, and no shorter than what was flushed."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from storage_kit import NOW, PATH, append, batch, close, open_memory_log, read_all

from ottla.errors import KafkaError
from ottla.storage.log import Log, LogConfig
from ottla.testing.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, segment_index_bytes=96)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 120)),
        st.tuples(st.just("roll"), st.just(0), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 1 << 30), st.just(0)),
        st.tuples(st.just("full"), st.integers(0, 300), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("retain"), st.integers(0, 3000), st.just(0)),
    ),
    max_size=40,
)


class Model:
    """The log beside a list of what was written to it."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.log: Log = open_memory_log(self.files, config=CONFIG)
        self.written: list[bytes] = []  # by offset
        self.start = 0

    def check(self) -> None:
        log = self.log
        assert log.end_offset == len(self.written)
        assert self.start <= log.start_offset <= log.end_offset
        self.start = log.start_offset
        found = [(record.offset, record.value) for record in read_all(log, size_max=200)]
        assert found == list(enumerate(self.written))[log.start_offset :]
        assert log.size == sum(segment.size for segment in log.segments)

    def reopen(self, *, clean: bool, flushed: int) -> None:
        """The log may end earlier than the model says, but not before what was flushed."""
        start = self.log.start_offset
        self.log = open_memory_log(
            self.files,
            clean=clean,
            config=CONFIG,
            recovery_point=self.log.recovery_point,
            start_offset=start,
        )
        assert flushed <= self.log.end_offset <= len(self.written)
        del self.written[self.log.end_offset :]
        self.start = min(self.start, self.log.start_offset)

    def append(self, count: int, size: int) -> None:
        values = [b"%d." % (len(self.written) + index) + b"x" * size for index in range(count)]
        appended = append(self.log, batch(*values, timestamp=NOW + len(self.written)))
        assert appended.first_offset == len(self.written)
        self.written += values

    def step(self, kind: str, number: int, size: int) -> None:
        log = self.log
        if kind == "append":
            self.append(number, size)
        elif kind == "roll":
            log.roll(NOW)
        elif kind == "flush":
            log.flush(NOW)
            assert log.recovery_point == log.end_offset
        elif kind == "restart":
            close(log)
            self.reopen(clean=True, flushed=len(self.written))
        elif kind == "kill":
            self.files.kill()
            self.reopen(clean=False, flushed=len(self.written))
        elif kind == "crash":
            self.files.crash(Random(number))
            self.reopen(clean=False, flushed=log.recovery_point)
        elif kind == "full":
            self.full_disk(number)
        elif kind == "truncate":
            target = min(len(self.written), log.start_offset + number)
            log.truncate_to(target, NOW)
            del self.written[target:]
            self.cut_to_batch()
        elif kind == "delete":
            log.delete_records(min(log.end_offset, log.start_offset + number), NOW)
        elif kind == "retain":
            log.reconfigure(
                LogConfig(
                    segment_bytes=700,
                    index_interval_bytes=150,
                    segment_index_bytes=96,
                    retention_bytes=number,
                )
            )
            log.retain(NOW)

    def cut_to_batch(self) -> None:
        """A truncation inside a batch takes the batch; the offset is then given out again."""
        log = self.log
        held = [record.offset for record in read_all(log)]
        if len(held) < log.end_offset - log.start_offset:
            target = held[-1] + 1 if held else log.start_offset
            log.truncate_fully_and_start_at(log.end_offset, NOW)
            self.start = log.start_offset
            assert target <= log.end_offset

    def full_disk(self, room: int) -> None:
        self.files.fill(room)
        try:
            while True:
                self.append(1, 60)
        except KafkaError:
            self.check()
        self.files.heal()


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_log_is_always_a_prefix_of_what_was_written(
    steps: list[tuple[str, int, int]],
) -> None:
    model = Model()
    for kind, number, size in steps:
        model.step(kind, number, size)
        model.check()


@settings(max_examples=200, deadline=None)
@given(st.data(), st.booleans())
def test_a_flipped_byte_anywhere_leaves_a_log_that_opens(data: st.DataObject, clean: bool) -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=CONFIG)
    written = []
    for index in range(data.draw(st.integers(1, 25))):
        value = b"%d " % index * 20
        sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": index}
        append(log, batch(value, timestamp=NOW + index, **sequence))
        written.append((index, value))
    close(log)
    names = sorted(name for name, node in files.nodes.items() if node.data)
    name = data.draw(st.sampled_from(names))
    position = data.draw(st.integers(0, len(files.nodes[name].data) - 1))
    files.flip(name, position, data.draw(st.integers(1, 255)))
    files.kill()
    log = open_memory_log(files, clean=clean, config=CONFIG)
    append(log, batch(b"next", timestamp=NOW))
    if name.endswith(".log"):
        check_damaged(log, written, clean)
    else:
        found = [(record.offset, record.value) for record in read_all(log, size_max=200)]
        assert found == [*written, (len(written), b"next")]
        for index in range(len(written)):
            assert log.offset_for_time(NOW + index, end_offset=99) == (index, NOW + index, 0)


def check_damaged(log: Log, written: list[tuple[int, bytes]], clean: bool) -> None:
    """After a crash the log ends before the damage; after a clean stop it is not scanned.

    As in Kafka, a reader of the batch then gets an error or another offset.
    """
    try:
        found = [(record.offset, record.value) for record in read_all(log, size_max=200)]
    except (KafkaError, AssertionError):
        assert clean
        return
    if not clean:
        *before, last = found
        assert last[1] == b"next"
        # No checksum protects the offset of the last batch.
        same = [pair == known for pair, known in zip(before, written, strict=False)]
        assert all(same[:-1])
        assert len(before) <= len(written)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 3))
def test_a_log_of_any_bytes_opens(rubbish: bytes, count: int) -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=CONFIG)
    for index in range(count):
        append(log, batch(b"%d" % index))
    files.nodes[f"{PATH}/00000000000000000000.log"].data += rubbish
    for clean in (True, False):
        log = open_memory_log(files, clean=clean, config=CONFIG)
        assert [record.value for record in read_all(log)] == [b"%d" % at for at in range(count)]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["index", "timeindex", "snapshot", "txnindex"]), st.binary())
)
def test_any_bytes_in_index_files_are_survived(contents: dict[str, bytes]) -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=CONFIG)
    for index in range(12):
        append(log, batch(b"%d" % index * 10, timestamp=NOW + index))
    close(log)
    for suffix, content in contents.items():
        base = 12 if suffix == "snapshot" else 0
        name = f"{PATH}/{base:020d}.{suffix}"
        files.open(name, create=True)
        files.nodes[name].data[:] = content
    for clean in (True, False):
        log = open_memory_log(files, clean=clean, config=CONFIG)
        assert [record.value for record in read_all(log)] == [b"%d" % at * 10 for at in range(12)]
        assert log.offset_for_time(NOW + 7, end_offset=12) == (7, NOW + 7, 0)
        assert log.max_timestamp(end_offset=12) == (11, NOW + 11, 0)
