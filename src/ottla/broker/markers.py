"""The ends of transactions: a marker in each of their partitions, whichever broker leads it.

`write_marker` is the leader's side: the marker goes into the log, and its readers go on once it is
committed. `MarkerPost` is the coordinator's side: markers for partitions of this broker are written
at once, those for others go there as WriteTxnMarkers. Whether one arrived is not always known; it
is written again then, which does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.courier import Courier
from ottla.broker.journal import when_committed
from ottla.cluster.image import NO_LEADER
from ottla.coordinator.keys import OFFSETS_TOPIC
from ottla.coordinator.transactions.outcome import Markers
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM
from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import Marker
from ottla.wire.apis import ApiKey
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

# How long a leader waits for its replicas before it says that it can't tell, and how long the
# coordinator waits for the leader: longer.
COMMIT_TIMEOUT_MS: Final = 10_000
ANSWER_S_MAX: Final = 15.0

Place = tuple[str, int]  # topic, index
Codes = dict[Place, ErrorCode]

log = logging.getLogger("ottla.broker")


class End(NamedTuple):
    """How a producer's transaction ends, as it is written to each of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int

    @property
    def ended_epoch(self) -> int:
        """The epoch of the transaction: with version 2 its marker has the one after (KIP-890)."""
        return self.producer_epoch - (self.transaction_version >= EPOCH_BUMP_FROM)


def write_marker(
    broker: Broker,
    topic: str,
    index: int,
    end: End,
    *,
    now_ms: int,
    tell: Callable[[ErrorCode], None],
) -> None:
    """Commit or abort a producer's transaction in a partition that this broker leads.

    A marker may be written again when it is not certain that it was: where no transaction is open
    it ends none. With transaction version 2 (KIP-890) it has the epoch after the transaction's.
    """
    try:
        partition = broker.partitions.leading(topic, index)
        partition.check_min_isr()
        partition.append_marker(
            Marker(end.commit, end.coordinator_epoch),
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            transaction_version=end.transaction_version,
            now_ms=now_ms,
        )
    except KafkaError as error:
        tell(error.code)
        return
    broker.verification.marked(topic, index, end.producer_id, end.ended_epoch)
    if topic == OFFSETS_TOPIC:
        broker.groups.transaction_ended(index, end.producer_id, commit=end.commit)
    when_committed(partition, tell, timeout_ms=COMMIT_TIMEOUT_MS)


class _Letter(NamedTuple):
    """A transaction's end for partitions of one other broker, and who is told how it went."""

    end: End
    places: tuple[Place, ...]
    tell: Callable[[Codes], None]


class MarkerPost:
    """Brings the ends of transactions to the leaders of their partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._under_way: set[tuple[int, int, str, int]] = set()  # producer id, epoch, place
        self._courier = Courier(self._carry, self._lost)

    def stop(self) -> None:
        self._courier.stop()

    def send(self, markers: Markers, now_ms: int, tell: Callable[[Codes], None]) -> None:
        """Tell how it went, for some partitions at a time; a code that is no NONE: not yet.

        A partition that no longer exists needs no marker. One to which a marker of this end is
        under way is told of by whoever sent it.
        """
        end = End(*markers[1:6])
        known: Codes = {}  # as soon as this returns
        at_once = True
        away: dict[int, list[Place]] = {}

        def told(place: Place, code: ErrorCode) -> None:
            self._done(end, place, code)
            if at_once:
                known[place] = code
            else:
                tell({place: code})

        for place in self._begin(end, markers.partitions):
            leader = self._leader(*place)
            if leader is None:
                told(place, ErrorCode.NONE)
            elif leader == self._broker.node_id:
                write_marker(self._broker, *place, end, now_ms=now_ms, tell=partial(told, place))
            elif leader == NO_LEADER:
                told(place, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                away.setdefault(leader, []).append(place)
        at_once = False
        for broker_id, places in away.items():
            self._courier.send(broker_id, _Letter(end, tuple(places), tell))
        if known or not markers.partitions:
            tell(known)

    def _begin(self, end: End, places: tuple[Place, ...]) -> Iterator[Place]:
        for place in places:
            key = (*end[:2], *place)
            if key not in self._under_way:
                self._under_way.add(key)
                yield place

    def _done(self, end: End, place: Place, code: ErrorCode) -> None:
        self._under_way.discard((*end[:2], *place))
        if code is not ErrorCode.NONE:
            topic, index = place
            log.warning("marker of producer %d in %s-%d: %s", end[0], topic, index, code.name)

    def _leader(self, topic: str, index: int) -> int | None:
        """None: there is no such partition any more."""
        found = self._broker.image.topics.get(topic)
        if found is None or index >= len(found.partitions):
            return None
        return found.partitions[index].leader

    # -- other brokers

    async def _carry(self, broker_id: int, letters: list[_Letter]) -> None:
        response = await self._broker.neighbours.call(
            broker_id,
            WriteTxnMarkersRequest([_marker(letter) for letter in letters]),
            ApiKey.WRITE_TXN_MARKERS,
            WriteTxnMarkersResponse,
            timeout_s=ANSWER_S_MAX,
        )
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        for letter, result in zip(letters, response.markers, strict=True):
            codes = {
                (topic.name, each.partition_index): ErrorCode(each.error_code)
                for topic in result.topics
                for each in topic.partitions
            }
            self._tell(letter, {place: codes.get(place, missing) for place in letter.places})

    def _lost(self, letters: list[_Letter], error: KafkaError) -> None:
        for letter in letters:
            self._tell(letter, dict.fromkeys(letter.places, error.code))

    def _tell(self, letter: _Letter, codes: Codes) -> None:
        for place, code in codes.items():
            self._done(letter.end, place, code)
        letter.tell(codes)


def _marker(letter: _Letter) -> WritableTxnMarker:
    end = letter.end
    topics: dict[str, list[int]] = {}
    for topic, index in letter.places:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.commit,
        topics=[WritableTxnMarkerTopic(*each) for each in topics.items()],
        coordinator_epoch=end.coordinator_epoch,
        transaction_version=end.transaction_version,
    )
