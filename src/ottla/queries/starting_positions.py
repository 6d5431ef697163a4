"""Where a sub-topology begins, and with what: found out once for a state directory, and kept there.

it has never run                           at the beginning or end of its topics, as it is told
somebody has set the group's offsets       there (kafka-streams-application-reset)
it has run, and its state is elsewhere     where it was: tasks are restored from their topics
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.engine.failures import StreamsError
from ottla.engine.restore import Kept, Topics, tasks_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import Piece
from ottla.queries.cluster import Cluster
from ottla.queries.group_progress import Committed, take
from ottla.spark.checkpoints import Position, read_json, write_json
from ottla.spark.sink.decisions import Decisions, Identity
from ottla.spark.sink.options import TRANSACTION_TIMEOUT_MS

log = logging.getLogger("ottla.streams")

FILE: Final = "start.json"
NAME_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Start:
    """As it is written down. `first` is the number of the first batch, in the sink's count."""

    tasks: int
    offsets: Position
    first: int = 0
    restored: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartingPositions:
    """Of all sub-topologies of an application; `home` is its state directory."""

    application_id: str
    cluster: Cluster
    home: Path
    wishes: ApplicationSettings

    def check(self, pieces: Iterable[Piece], committed: Committed) -> None:
        """An application whose state is gone must not begin anew as if nothing had been."""
        if any(self.home.glob(f"*/{FILE}")):
            return
        for piece in pieces:
            inputs = [each for each in piece.topics if each not in piece.internal]
            told = any(each in committed.told for each in inputs)
            wished = any(each in committed.wished for each in inputs)
            if told and not wished and not piece.kept:
                raise StreamsError(
                    f"Application {self.application_id} has run before: group"
                    f" {self.application_id} has its offsets. But its state is neither in"
                    f" {self.home} nor in topics. Give the state directory of that run (state_dir,"
                    " --state-dir); or let it begin anew: kafka-streams-application-reset"
                    f" --application-id {self.application_id} --input-topics {','.join(inputs)}"
                )

    def of(self, piece: Piece, committed: Committed) -> Start:
        path = self._path(piece)
        known = read_json(path)
        if known is None:
            found = self._found(piece, committed)
            self._take(piece, found, committed)
            known = asdict(found)
            write_json(path, known)
        start = Start(**known)
        if start.tasks != piece.tasks:
            raise StreamsError(
                f"Sub-topology {piece.number} has state for {start.tasks} tasks, and its topics"
                f" have {piece.tasks} partitions now. Use 'kafka-streams-application-reset', and"
                " cleanup()."
            )
        return start

    def query(self, piece: Piece) -> str:
        """Its name for the sink, whatever the checkpoint."""
        name = self.application_id
        if len(name) > NAME_MAX:
            name = hashlib.sha256(name.encode()).hexdigest()
        return f"streams-{name}-{piece.number}"

    def _take(self, piece: Piece, start: Start, committed: Committed) -> None:
        """Before anything is written down or done: a wish that is found again behind the first
        batch, by who has lost its state, would have records count twice."""
        wishes: Position = {}
        for topic in piece.topics:
            taken = committed.taken.get(topic, {})
            for partition, offset in committed.wished.get(topic, {}).items():
                if partition not in taken:
                    wishes.setdefault(topic, {})[partition] = offset
        try:
            take(self.cluster, self.application_id, wishes, start.first)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise StreamsError(
                f"Group {self.application_id} has members: somebody reads under the id of this"
                " application, and would go on beside it. Stop that first; it begins where they are"
                " then."
            ) from None

    def _path(self, piece: Piece) -> Path:
        return self.home / str(piece.number) / FILE

    def _found(self, piece: Piece, committed: Committed) -> Start:
        """First nobody else may write any more: then the topics are read."""
        first = self._first_batch(piece) if self.wishes.exactly_once else int(time.time() * 1000)
        where = (self.application_id, self.cluster.bootstrap_servers, self.cluster.settings)
        kept = Topics(piece.subtopology, *where).kept() if piece.kept else Kept()
        told = max((each for firsts in kept.firsts.values() for each in firsts.values()), default=0)
        if told >= first and self.wishes.exactly_once:
            # By at least once, which counts from the clock: what is told from here on counts more.
            first = self._first_batch(piece, above=told)
        if kept.positions:
            log.info(
                "application %s: sub-topology %d goes on where it was, restored from its topics",
                self.application_id,
                piece.number,
            )
        offsets = {
            topic: self._offsets(piece, topic, rule, committed, kept)
            for topic, rule in piece.topics.items()
        }
        return Start(piece.tasks, offsets, first, kept.ends)

    def _first_batch(self, piece: Piece, above: int = -1) -> int:
        lines = ClusterClient(self.cluster.bootstrap_servers, self.cluster.settings)
        with closing(lines):
            identity = Identity(self.query(piece))
            decisions = Decisions(lines, identity, timeout_ms=TRANSACTION_TIMEOUT_MS)
            topic = tasks_topic(self.application_id, piece.number)
            return decisions.begin_anew(run=str(uuid.uuid4()), topic=topic, above=above)

    def _offsets(
        self,
        piece: Piece,
        topic: str,
        rule: str | None,
        committed: Committed,
        kept: Kept,
    ) -> dict[str, int]:
        earliest = self.wishes.earliest if rule is None else rule == "earliest"
        found = self.cluster.position(topic, earliest=earliest)[topic]
        if piece.kept:
            # Without transactions a task may have told its place when another had not written yet.
            exact = [kept.positions] if self.wishes.exactly_once else []
            found |= self._done(topic, [committed.told, *exact])
        return found | self._still_wished(topic, committed, kept)

    def _still_wished(self, topic: str, committed: Committed, kept: Kept) -> dict[str, int]:
        """Without those that were taken by somebody who has done something since."""
        wished, taken = committed.wished.get(topic, {}), committed.taken.get(topic, {})
        if not self.wishes.exactly_once:
            return wished
        done = kept.firsts.get(topic, {})
        return {
            each: offset
            for each, offset in wished.items()
            if each not in taken or done.get(each, -1) < taken[each]
        }

    def _done(self, topic: str, positions: Sequence[Position]) -> dict[str, int]:
        """Both are done: what the topics say, and what the group says, which has no records that
        came to nothing; the later one is where it goes on, or where the topic begins now."""
        done: dict[str, int] = {}
        for each in positions:
            for partition, offset in each.get(topic, {}).items():
                done[partition] = max(done.get(partition, 0), offset)
        starts = self.cluster.position(topic, earliest=True)[topic] if done else {}
        for partition, offset in done.items():
            start = starts.get(partition, 0)
            if offset < start:
                log.warning(
                    "application %s was at offset %d of %s-%s, which begins at %d now",
                    self.application_id,
                    offset,
                    topic,
                    partition,
                    start,
                )
                done[partition] = start
        return done
