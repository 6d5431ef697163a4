"""Transactions of KIP-890 in a log: their state survives whatever happens to the log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from storage_kit import NOW, append, batch, close, marker, open_memory_log

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin
from ottla.storage.log import Log, LogConfig
from ottla.testing.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=150)


class Model:
    """Transaction states by a simple scan of the batches in order."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, bool | None]] = []  # producer, epoch, how it ended

    def known(self, end_offset: int) -> dict[int, tuple[int, int]]:
        """Producer -> epoch, first offset of its open transaction."""
        found: dict[int, tuple[int, int]] = {}
        for offset, (producer, epoch, ended) in enumerate(self.steps[:end_offset]):
            open_at = found.get(producer, (-1, -1))[1]
            if ended is not None:
                open_at = -1
            elif open_at < 0:
                open_at = offset
            found[producer] = (epoch, open_at)
        return found

    def aborted(self, end_offset: int) -> list[tuple[int, int]]:
        found = []
        opened: dict[int, int] = {}
        for offset, (producer, _, ended) in enumerate(self.steps[:end_offset]):
            if ended is None:
                opened.setdefault(producer, offset)
                continue
            first = opened.pop(producer, None)
            if first is not None and not ended:
                found.append((producer, first))
        return found

    def check(self, log: Log) -> None:
        end = log.end_offset
        known = {producer.producer_id: producer for producer in log.producers()}
        expected = self.known(end)
        assert {
            producer: (entry.epoch, entry.transaction_offset) for producer, entry in known.items()
        } == expected
        open_offsets = [first for _, first in expected.values() if first >= 0]
        assert log.first_unstable_offset == min(open_offsets, default=None)
        assert log.aborted(0, end) == self.aborted(end)


def play(log: Log, model: Model, seed: int, count: int = 30) -> None:
    """Three producers, whose transactions end with the epoch after their own."""
    chance = Random(seed)
    state = dict.fromkeys((1, 2, 3), (0, 0))  # epoch, next sequence
    for _ in range(count):
        producer = chance.choice((1, 2, 3))
        epoch, sequence = state[producer]
        if sequence and chance.random() < 0.4:
            commit = chance.random() < 0.5
            model.steps.append((producer, epoch + 1, commit))
            end = marker(producer, commit=commit, epoch=epoch + 1)
            append(log, end, origin=AppendOrigin.COORDINATOR)
            state[producer] = (epoch + 1, 0)
        else:
            model.steps.append((producer, epoch, None))
            data = batch(
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
            append(log, data)
            state[producer] = (epoch, sequence + 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_write_leaves_transactions_as_the_log_has_them(seed: int) -> None:
    after = 0
    while True:
        files = MemoryFiles()
        model = Model()
        log = open_memory_log(files, config=CONFIG)
        files.fail("pwrite", after=after)
        try:
            play(log, model, seed)
        except KafkaError:
            pass
        else:
            break
        files.kill()
        files.heal()
        log = open_memory_log(files, config=CONFIG, clean=False)
        model.check(log)
        after += 1
    assert after > 30
    files.heal()
    close(log)
    model.check(open_memory_log(files, config=CONFIG))


@pytest.mark.parametrize("seed", range(4))
def test_a_truncated_log_knows_its_open_transactions(seed: int) -> None:
    for offset in range(29, -1, -3):
        model = Model()
        log = open_memory_log(config=CONFIG)
        play(log, model, seed)
        log.truncate_to(offset, NOW)
        assert log.end_offset == offset
        model.check(log)


def refusal(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        act()
    return error.value.code


def test_sequences_restart_with_the_epoch_of_a_marker() -> None:
    log = open_memory_log()

    def write(epoch: int, sequence: int) -> None:
        data = batch(
            producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        append(log, data)

    write(0, 0)
    write(0, 1)
    append(log, marker(7, commit=True, epoch=1), origin=AppendOrigin.COORDINATOR)
    assert refusal(lambda: write(0, 2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: write(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(1, 0)
    write(1, 1)


def test_a_coordinators_batches_have_no_sequence_and_open_a_transaction() -> None:
    """Offsets that a transaction commits, in `__consumer_offsets`."""
    log = open_memory_log()
    for _ in range(3):
        data = batch(producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
        assert not append(log, data, origin=AppendOrigin.COORDINATOR).duplicate
    assert (log.end_offset, log.first_unstable_offset) == (3, 0)
    older = batch(producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    code = refusal(lambda: append(log, older, origin=AppendOrigin.COORDINATOR))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
