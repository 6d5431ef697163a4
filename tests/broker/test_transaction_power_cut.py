"""The process ends at any write of a transaction: it commits completely, or aborts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transaction_client import TransactionClient, play

from ottla.broker import coordinator_service
from ottla.broker.transaction_markers import MarkerWriter
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

WRITE_COUNT = 7  # begin with t, with offsets; Prepare; three markers; Complete
PARTITIONS = [("t", 0), ("t", 1)]
SOON = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "100"}


class PowerCut(Exception):
    """Raised by every further write."""


class Switch:
    """Permits `count` writes, and fails every later one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for room, name in (
            (coordinator_service, "append_records"),
            (MarkerWriter, "write"),
        ):
            monkeypatch.setattr(room, name, self._through(getattr(room, name)))

    def _through(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **more: Any) -> Any:
            if self.left is not None:
                if not self.left:
                    raise PowerCut
                self.left -= 1
            return write(*args, **more)

        return written


async def produce(client: TransactionClient, index: int, version: int) -> None:
    batch = build_batch(
        [Record(key=None, value=b"v", timestamp=client.broker.clock.now_ms())],
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData("t", partition_data=[PartitionProduceData(index, batch)])
    request = ProduceRequest(client.transactional_id, -1, 1000, [data])
    response = await client.ask(ApiKey.PRODUCE, request, version)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("writes", range(WRITE_COUNT + 1))
@pytest.mark.parametrize(("version", "commit"), [(4, False), (5, True)])  # version of EndTxn
def test_transactions_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, version: int, commit: bool
) -> None:
    switch = Switch(monkeypatch)
    received: list[ErrorCode] = []

    async def transact(client: TransactionClient) -> None:
        await client.broker.auto_create(OFFSETS_TOPIC)
        assert await client.init(timeout_ms=1) is ErrorCode.NONE
        switch.left = writes
        try:
            assert await client.add(*PARTITIONS) == [ErrorCode.NONE] * 2
            await produce(client, 0, 11)
            await produce(client, 1, 11)
            assert await client.add_offsets("g") is ErrorCode.NONE
            received.append(await client.end(commit, version))
        except PowerCut:
            assert writes < WRITE_COUNT
        else:
            assert writes == WRITE_COUNT
        client.broker.transactions.stop()
        switch.left = None

    async def look(client: TransactionClient) -> None:
        while await client.state() in ("Ongoing", "PrepareCommit", "PrepareAbort"):
            await asyncio.sleep(0.02)
        decisions = set()
        for topic, index in PARTITIONS:
            partition = client.broker.partitions.find(topic, index)
            assert partition.last_stable_offset == partition.high_watermark
            decisions |= {commits for _, _, commits in client.markers(topic, index)}
        if writes == 0:
            assert (decisions, await client.state()) == (set(), "Empty")
            return
        assert len(decisions) == 1
        decided = writes >= 3  # Prepare was stored
        assert decisions == {commit and decided}
        assert await client.state() == ("CompleteCommit" if commit and decided else "CompleteAbort")
        assert not received or received == [ErrorCode.NONE]

    play(tmp_path, transact, look, look, **SOON)
