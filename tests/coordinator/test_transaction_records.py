"""The records of `__transaction_state`; the bytes below were written by Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.transactions.records import read_key, read_value, write_key, write_value
from ottla.coordinator.transactions.transaction import TransactionMetadata, TransactionState
from ottla.errors import KafkaError

# State, tags, and the value.
KAFKA_S = {
    "Empty, new": "0001000000000000000000000000ea600000000001a1e217eccaffffffffffffffff"
    "0100080000000000000000",
    "Ongoing": "0001000000000000000000000000ea6001020274020000000000000001a1e217ed7e"
    "000001a1e217ed7e020008000000000000000002020002",
    "Ongoing, version 0": "0001000000000000000900000000006401020274020000000000000001a1e2184059"
    "000001a1e21840590100080000000000000009",
    "PrepareCommit": "0001000000000000000000010000ea600202027403000000010000000000000001a1e217edcf"
    "000001a1e217ed7e020008000000000000000002020002",
    "PrepareCommit, epochs run out": "0001000000000000000f7fff0000ea6002020274020000000000000001"
    "a1e218efc0000001a1e218efbf030008000000000000000f0108000000000000001002020002",
    "CompleteAbort": "0001000000000000000600030000ea600501000001a1e217f211000001a1e217f20e"
    "020008000000000000000602020002",
}
int64s = st.integers(-1, 2**63 - 1)
partitions = st.frozensets(st.tuples(st.text(max_size=20), st.integers(0, 2**31 - 1)), max_size=20)
transactions = st.builds(
    TransactionMetadata,
    producer_id=int64s,
    epoch=st.integers(-1, 2**15 - 1),
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    partitions=partitions,
    start_ms=int64s,
    update_ms=int64s,
    previous_producer_id=int64s,
    next_producer_id=int64s,
    client_version=st.integers(0, 2),
    last_epoch=st.just(-1),
)


@pytest.mark.parametrize("name", KAFKA_S)
def test_a_value_written_by_kafka_is_rewritten_identically(name: str) -> None:
    data = bytes.fromhex(KAFKA_S[name])
    read = read_value(data)
    assert read.state.title == name.split(",")[0]
    # Kafka keeps a set's own order; ours is sorted.
    assert sorted(write_value(read)) == sorted(data)
    if len(read.partitions) < 2:
        assert write_value(read) == data


def test_a_key() -> None:
    assert write_key("x") == b"\x00\x00\x00\x01x"
    assert read_key(b"\x00\x00\x00\x01x") == "x"


def test_a_key_of_an_unknown_type_is_skipped() -> None:
    assert read_key(b"\x00\x01\x00\x01x") is None


@given(transactions)
def test_a_value_is_read_as_it_was_written(transaction: TransactionMetadata) -> None:
    read = read_value(write_value(transaction))
    if transaction.state is TransactionState.EMPTY:
        transaction = transaction._replace(partitions=frozenset())
    assert read == transaction


def test_a_value_of_version_0() -> None:
    data = bytes.fromhex(
        "0000"  # version
        "0000000000000007" "0003" "0000ea60" "01"  # producer, epoch, timeout, Ongoing
        "00000001" "000174" "00000002" "00000000" "00000005"  # t-0 and t-5
        "0000018bcfe56800" "0000018bcfe56700"
    )  # fmt: skip
    read = read_value(data)
    assert read == TransactionMetadata(
        7,
        3,
        60_000,
        TransactionState.ONGOING,
        frozenset({("t", 0), ("t", 5)}),
        start_ms=0x18BCFE56700,
        update_ms=0x18BCFE56800,
    )


def test_unknown_tags_are_skipped() -> None:
    written = write_value(TransactionMetadata(1, 0, 1, previous_producer_id=1))
    assert written.endswith(b"\x01\x00\x08" + (1).to_bytes(8, "big"))
    more = written[: -len(b"\x01\x00\x08") - 8] + b"\x02" + written[-10:] + b"\x09\x01\xff"
    assert read_value(more) == read_value(written)


@pytest.mark.parametrize("size", range(40))
def test_a_truncated_value_is_refused(size: int) -> None:
    whole = write_value(
        TransactionMetadata(1, 0, 1, TransactionState.ONGOING, frozenset({("topic", 3)}))
    )
    assert len(whole) > 40
    with pytest.raises(KafkaError):
        read_value(whole[:size])


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x05x"])
def test_a_truncated_key_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaError):
        read_key(data)


def test_an_unknown_state_is_refused() -> None:
    data = bytearray(write_value(TransactionMetadata(1, 0, 1)))
    data[2 + 14] = 9
    with pytest.raises(KafkaError):
        read_value(bytes(data))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(KafkaError):
        read_value(b"\x00\x02" + bytes(60))
