"""Where a sub-topology starts, and from which state: decided once per state directory.

it has never run                           at the first or end offsets of its topics, as configured
the group has requested offsets            there (kafka-streams-application-reset)
it has run with another state directory    where it stopped: tasks are restored from changelogs
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
from ottla.engine.restore import ChangelogReader, RestorePoint, tasks_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import PreparedSubtopology
from ottla.queries.cluster import KafkaCluster
from ottla.queries.group_progress import GroupProgress, claim_positions
from ottla.spark.checkpoints import Position, read_json, write_json
from ottla.spark.sink.commit_log import CommitLog, SinkIdentity
from ottla.spark.sink.options import TRANSACTION_TIMEOUT_MS

log = logging.getLogger("ottla.streams")

FILE: Final = "start.json"
NAME_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class SubtopologyStart:
    """The stored decision. `first` is the number of the first batch, in the sink's count."""

    tasks: int
    offsets: Position
    first: int = 0
    restored: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartingPositions:
    """The starting positions of an application's sub-topologies."""

    application_id: str
    cluster: KafkaCluster
    state_dir: Path
    settings: ApplicationSettings

    def check(self, pieces: Iterable[PreparedSubtopology], committed: GroupProgress) -> None:
        """Raises StreamsError for an application that has run but whose state is lost: it must not
        silently start from scratch."""
        if any(self.state_dir.glob(f"*/{FILE}")):
            return
        for piece in pieces:
            inputs = [topic for topic in piece.topics if topic not in piece.internal]
            reported = any(topic in committed.reported for topic in inputs)
            requested = any(topic in committed.requested for topic in inputs)
            if reported and not requested and not piece.has_changelog:
                raise StreamsError(
                    f"Application {self.application_id} has run before: group"
                    f" {self.application_id} has its offsets. But its state is neither in"
                    f" {self.state_dir} nor in topics. Use the state directory of that run"
                    " (state_dir, --state-dir), or start over: kafka-streams-application-reset"
                    f" --application-id {self.application_id} --input-topics {','.join(inputs)}"
                )

    def of(self, piece: PreparedSubtopology, committed: GroupProgress) -> SubtopologyStart:
        path = self._path(piece)
        known = read_json(path)
        if known is None:
            found = self._found(piece, committed)
            self._take(piece, found, committed)
            known = asdict(found)
            write_json(path, known)
        start = SubtopologyStart(**known)
        if start.tasks != piece.tasks:
            raise StreamsError(
                f"Sub-topology {piece.number} has state for {start.tasks} tasks, but its topics"
                f" have {piece.tasks} partitions now. Run 'kafka-streams-application-reset' and"
                " cleanup()."
            )
        return start

    def query(self, piece: PreparedSubtopology) -> str:
        """The query's name in the sink, which is the same for every checkpoint."""
        name = self.application_id
        if len(name) > NAME_MAX:
            name = hashlib.sha256(name.encode()).hexdigest()
        return f"streams-{name}-{piece.number}"

    def _take(
        self, piece: PreparedSubtopology, start: SubtopologyStart, committed: GroupProgress
    ) -> None:
        """Claims requested offsets before the start is stored or a batch runs. Without a claim, an
        instance that loses its state later would find the request again and process the records
        twice."""
        requested: Position = {}
        for topic in piece.topics:
            claimed = committed.claimed.get(topic, {})
            for partition, offset in committed.requested.get(topic, {}).items():
                if partition not in claimed:
                    requested.setdefault(topic, {})[partition] = offset
        try:
            claim_positions(self.cluster, self.application_id, requested, start.first)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise StreamsError(
                f"Group {self.application_id} has active members: a consumer uses the id of this"
                " application. Stop it first; the application then starts at its offsets."
            ) from None

    def _path(self, piece: PreparedSubtopology) -> Path:
        return self.state_dir / str(piece.number) / FILE

    def _found(self, piece: PreparedSubtopology, committed: GroupProgress) -> SubtopologyStart:
        """Fences all earlier writers first (`start_generation`), then reads the changelogs:
        otherwise a batch that another instance commits in between would be missed."""
        first = self._first_batch(piece) if self.settings.exactly_once else int(time.time() * 1000)
        where = (self.application_id, self.cluster.bootstrap_servers, self.cluster.settings)
        restore_point = (
            ChangelogReader(piece.subtopology, *where).restore_point()
            if piece.has_changelog
            else RestorePoint()
        )
        known = max(
            (number for firsts in restore_point.firsts.values() for number in firsts.values()),
            default=0,
        )
        if known >= first and self.settings.exactly_once:
            # At-least-once runs took larger numbers, from the clock: positions that this checkpoint
            # writes must be the newest.
            first = self._first_batch(piece, above=known)
        if restore_point.positions:
            log.info(
                "Application %s: restoring sub-topology %d from its changelog topics",
                self.application_id,
                piece.number,
            )
        offsets = {
            topic: self._offsets(piece, topic, rule, committed, restore_point)
            for topic, rule in piece.topics.items()
        }
        return SubtopologyStart(piece.tasks, offsets, first, restore_point.ends)

    def _first_batch(self, piece: PreparedSubtopology, above: int = -1) -> int:
        lines = ClusterClient(self.cluster.bootstrap_servers, self.cluster.settings)
        with closing(lines):
            identity = SinkIdentity(self.query(piece))
            decisions = CommitLog(lines, identity, timeout_ms=TRANSACTION_TIMEOUT_MS)
            topic = tasks_topic(self.application_id, piece.number)
            return decisions.start_generation(run=str(uuid.uuid4()), topic=topic, above=above)

    def _offsets(
        self,
        piece: PreparedSubtopology,
        topic: str,
        rule: str | None,
        committed: GroupProgress,
        restore_point: RestorePoint,
    ) -> dict[str, int]:
        earliest = self.settings.earliest if rule is None else rule == "earliest"
        found = self.cluster.position(topic, earliest=earliest)[topic]
        if piece.has_changelog:
            # Without transactions, one task may have written its position before another has
            # written its output: only the reported offsets are safe.
            exact = [restore_point.positions] if self.settings.exactly_once else []
            found |= self._done(topic, [committed.reported, *exact])
        return found | self._still_requested(topic, committed, restore_point)

    def _still_requested(
        self, topic: str, committed: GroupProgress, restore_point: RestorePoint
    ) -> dict[str, int]:
        """Requested offsets, except those whose claimant has committed a batch since."""
        requested, claimed = committed.requested.get(topic, {}), committed.claimed.get(topic, {})
        if not self.settings.exactly_once:
            return requested
        done = restore_point.firsts.get(topic, {})
        return {
            partition: offset
            for partition, offset in requested.items()
            if partition not in claimed or done.get(partition, -1) < claimed[partition]
        }

    def _done(self, topic: str, positions: Sequence[Position]) -> dict[str, int]:
        """The later of the changelogs' positions, which omit records without effect, and the
        group's offsets; at least the topic's log start. Both are lower bounds of the progress."""
        done: dict[str, int] = {}
        for position in positions:
            for partition, offset in position.get(topic, {}).items():
                done[partition] = max(done.get(partition, 0), offset)
        starts = self.cluster.position(topic, earliest=True)[topic] if done else {}
        for partition, offset in done.items():
            start = starts.get(partition, 0)
            if offset < start:
                log.warning(
                    "Application %s was at offset %d of %s-%s, whose log start offset is now %d",
                    self.application_id,
                    offset,
                    topic,
                    partition,
                    start,
                )
                done[partition] = start
        return done
