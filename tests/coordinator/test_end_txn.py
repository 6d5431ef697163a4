"""The two tables of EndTxn, cell by cell; and producers that may not end a transaction."""

from __future__ import annotations

import pytest

from ottla.coordinator.transactions.end_txn import check_end_txn
from ottla.coordinator.transactions.transaction import (
    EPOCH_MAX,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from ottla.errors import ErrorCode

PRODUCER_ID, EPOCH = 7, 5
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
WORDS = {
    "goes": None,
    "NONE": ErrorCode.NONE,
    "ITS": ErrorCode.INVALID_TXN_STATE,
    "FENCED": ErrorCode.PRODUCER_FENCED,
    "CONCURRENT": CONCURRENT,
}
# commit, abort: EndTxn up to v4
VERSION_1 = {
    TransactionState.ONGOING: "goes goes",
    TransactionState.PREPARE_COMMIT: "CONCURRENT CONCURRENT",
    TransactionState.PREPARE_ABORT: "CONCURRENT CONCURRENT",
    TransactionState.COMPLETE_COMMIT: "NONE ITS",
    TransactionState.COMPLETE_ABORT: "ITS NONE",
    TransactionState.EMPTY: "ITS ITS",
}
# commit with the epoch before, with that of now; abort likewise: EndTxn v5
VERSION_2 = {
    TransactionState.ONGOING: "FENCED goes FENCED goes",
    TransactionState.PREPARE_COMMIT: "CONCURRENT CONCURRENT CONCURRENT CONCURRENT",
    TransactionState.PREPARE_ABORT: "CONCURRENT CONCURRENT CONCURRENT CONCURRENT",
    TransactionState.COMPLETE_COMMIT: "NONE ITS ITS goes",
    TransactionState.COMPLETE_ABORT: "FENCED ITS NONE goes",
    TransactionState.EMPTY: "FENCED ITS FENCED goes",
}


def transaction(state: TransactionState, **more: int) -> TransactionMetadata:
    return TransactionMetadata(
        PRODUCER_ID, EPOCH, 1000, state, previous_producer_id=PRODUCER_ID
    )._replace(
        **more  # type: ignore[arg-type]
    )


def ended(
    of: TransactionMetadata, commit: bool, version: int, *, epoch: int = EPOCH, producer_id: int = 7
) -> ErrorCode | None:
    return check_end_txn(
        of, producer_id=producer_id, epoch=epoch, commit=commit, client_version=version
    )


@pytest.mark.parametrize("state", VERSION_1)
def test_version_1(state: TransactionState) -> None:
    for commit, word in zip((True, False), VERSION_1[state].split(), strict=True):
        assert ended(transaction(state), commit, 0) == WORDS[word]
        for epoch in (EPOCH - 1, EPOCH + 1):
            assert ended(transaction(state), commit, 0, epoch=epoch) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", VERSION_2)
def test_version_2(state: TransactionState) -> None:
    asked = [(True, EPOCH - 1), (True, EPOCH), (False, EPOCH - 1), (False, EPOCH)]
    for (commit, epoch), word in zip(asked, VERSION_2[state].split(), strict=True):
        assert ended(transaction(state), commit, 2, epoch=epoch) == WORDS[word]
    for epoch in (EPOCH - 2, EPOCH + 1):
        for commit in (True, False):
            code = ended(transaction(state), commit, 2, epoch=epoch)
            assert code is (CONCURRENT if state in PREPARED else ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize("state", VERSION_2)
@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_cannot_end_the_transaction(state: TransactionState, version: int) -> None:
    code = ended(transaction(state), True, version, producer_id=8)
    if version == 2 and state in PREPARED:
        assert code is CONCURRENT
    else:
        assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", sorted(PREPARED, key=str))
@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_with_its_next_id_waits_until_that_is_stored(
    state: TransactionState, commit: bool
) -> None:
    """It has the id from the response of EndTxn, before all markers are written."""
    rotating = transaction(state, epoch=EPOCH_MAX, next_producer_id=8, client_version=2)
    assert ended(rotating, commit, 2, producer_id=8, epoch=0) is CONCURRENT


def test_a_producer_that_missed_its_new_id_may_repeat_the_commit() -> None:
    moved = transaction(TransactionState.COMPLETE_COMMIT, epoch=0, previous_producer_id=6)
    last = EPOCH_MAX - 1
    assert ended(moved, True, 2, producer_id=6, epoch=last) is ErrorCode.NONE
    assert ended(moved, False, 2, producer_id=6, epoch=last) is ErrorCode.INVALID_TXN_STATE
    earlier = ended(moved, True, 2, producer_id=6, epoch=last - 1)
    assert earlier is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    aborted = moved._replace(state=TransactionState.COMPLETE_ABORT)
    assert ended(aborted, True, 2, producer_id=6, epoch=last) is ErrorCode.PRODUCER_FENCED
    # Nor can it end a transaction begun with the new id.
    begun = moved._replace(state=TransactionState.ONGOING)
    assert ended(begun, True, 2, producer_id=6, epoch=last) is ErrorCode.PRODUCER_FENCED
