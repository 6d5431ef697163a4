"""The small text files, byte for byte as Kafka writes them."""

from __future__ import annotations

import pytest

from ottla.storage import checkpoints
from ottla.storage.checkpoints import DamagedError, MetaProperties


def test_offset_checkpoint_is_kafkas_text() -> None:
    data = checkpoints.write_offset_checkpoint({("orders", 0): 12, ("a-b", 3): 0})
    assert data == b"0\n2\norders 0 12\na-b 3 0\n"
    assert checkpoints.read_offset_checkpoint(data) == {("orders", 0): 12, ("a-b", 3): 0}


def test_an_empty_file_is_a_checkpoint_of_nothing() -> None:
    assert checkpoints.read_offset_checkpoint(b"") == {}
    assert checkpoints.read_epoch_checkpoint(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 x\n",
        b"0\n1\nt 0 1",
        b"0\n",
        b"x",
        b"\xff\xfe",
        b"0\n1\nt 0 99999999999999999999\n",
        b"0\n1\nt 0 " + b"9" * 5000 + b"\n",
        "0\n1\nt 0 ١٢\n".encode(),
    ],
)
def test_a_damaged_checkpoint_is_detected(data: bytes) -> None:
    with pytest.raises(DamagedError):
        checkpoints.read_offset_checkpoint(data)


def test_epoch_checkpoint_is_kafkas_text() -> None:
    data = checkpoints.write_epoch_checkpoint([(0, 0), (4, 100)])
    assert data == b"0\n2\n0 0\n4 100\n"
    assert checkpoints.read_epoch_checkpoint(data) == [(0, 0), (4, 100)]


@pytest.mark.parametrize("data", [b"0\n2\n4 100\n0 0\n", b"0\n2\n0 10\n1 5\n", b"0\n1\n1 2 3\n"])
def test_epochs_must_rise(data: bytes) -> None:
    with pytest.raises(DamagedError):
        checkpoints.read_epoch_checkpoint(data)


def test_partition_metadata_is_kafkas_text() -> None:
    topic_id = bytes(range(16))
    data = checkpoints.write_partition_metadata(topic_id)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.read_partition_metadata(data) == topic_id


@pytest.mark.parametrize(
    "data",
    [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: AA", b"?"],
)
def test_damaged_partition_metadata(data: bytes) -> None:
    with pytest.raises(DamagedError):
        checkpoints.read_partition_metadata(data)


def test_meta_properties_round_trip() -> None:
    meta = MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 7, "AAECAwQFBgcICQoLDA0ODw")
    assert checkpoints.read_meta_properties(checkpoints.write_meta_properties(meta)) == meta


def test_old_meta_properties_are_read() -> None:
    data = b"#\n#Thu Nov 14 10:00:00 UTC 2024\nbroker.id=3\nversion=0\ncluster.id=abc\n"
    assert checkpoints.read_meta_properties(data) == MetaProperties("abc", 3)


@pytest.mark.parametrize("data", [b"version=9\n", b"node.id=x\nversion=1\n", b"nonsense\n"])
def test_damaged_meta_properties(data: bytes) -> None:
    with pytest.raises(DamagedError):
        checkpoints.read_meta_properties(data)


def test_clean_shutdown_file_is_kafkas_json() -> None:
    assert checkpoints.write_clean_shutdown() == b'{"version":0,"brokerEpoch":-1}'
