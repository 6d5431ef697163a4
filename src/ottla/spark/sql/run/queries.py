"""All queries that run: started, stopped, paused, asked how they are.

state_dir/queries/<query id>/<step>/   checkpoint/ of a stage with a Spark query of its own;
                                       start.json, position.json, alone/ (see feeds.py)
state_dir/shared/<input>/              checkpoint/ and members.json of a feed
state_dir/companies/<name>/            of aggregates that share a Spark query (see companies.py)
state_dir/push/<query id>/             of push queries, gone with them
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ottla.client.delivery import Setting
from ottla.spark.running.begin import Pace
from ottla.spark.running.checkpoints import Position, read_json, write_json
from ottla.spark.running.kept import Kept
from ottla.spark.running.states import QueryState, State, worst
from ottla.spark.sql.plan.pull import Pull
from ottla.spark.sql.plan.stages import Input, Plan, Stage
from ottla.spark.sql.run.cluster import Cluster
from ottla.spark.sql.run.companies import Companion
from ottla.spark.sql.run.feeds import Feed, Member
from ottla.spark.sql.run.frames import member_text
from ottla.spark.sql.run.lobby import Companies, Seat, alone_plan
from ottla.spark.sql.run.pull import Answer, Pulls
from ottla.spark.sql.run.push import PushQuery
from ottla.spark.sql.run.spells import Ground, wants_earliest
from ottla.spark.sql.run.together import Candidate, Together, can_share
from ottla.spark.sql.syntax.statements import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.sql")

SERVICE_ID: Final = "default_"


@dataclass
class _Query:
    """A persistent query. Its parts are those of its stages, in order."""

    id: str
    plan: Plan
    parts: list[_Part] = field(default_factory=list)
    paused: bool = False


@dataclass
class _Part:
    """A stage that runs: by itself, as a member of a feed, or where aggregates sit."""

    kept: Kept | None = None
    feed: Feed | None = None
    member_id: str = ""
    seat: Seat | None = None

    def state(self) -> QueryState:
        if self.kept is not None:
            return self.kept.state()
        if self.seat is not None:
            return self.seat.state()
        assert self.feed is not None
        return self.feed.state(self.member_id)

    def stop(self, *, keep: bool) -> None:
        if self.kept is not None:
            self.kept.stop()
        elif self.seat is not None:
            self.seat.stop(keep=keep)
        elif self.feed is not None:
            self.feed.leave(self.member_id)

    def retry(self) -> bool:
        """Whether it could be told to try again as it is."""
        return self.seat is not None and self.seat.retry()


class Queries:
    """`spark` is called when the first query starts: starting Spark takes seconds."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        bootstrap_servers: str,
        state_dir: Path | str,
        settings: Mapping[str, Setting] | None = None,
        *,
        service_id: str = SERVICE_ID,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self._dir = Path(state_dir)
        self._cluster = Cluster(bootstrap_servers, settings or {}, registry)
        self._ground = Ground(spark, self._cluster, service_id, Pace())
        self._lock = threading.RLock()
        self._queries: dict[str, _Query] = {}
        self._feeds: dict[str, Feed] = {}
        self._companies = self._all_companies()
        self._pushes: dict[str, PushQuery] = {}
        self._push_count = 0
        self._pulls = Pulls(self._ground)
        shutil.rmtree(self._dir / "push", ignore_errors=True)

    # Persistent queries

    def start(self, query_id: str, plan: Plan, *, paused: bool = False) -> None:
        """Starts a query, or goes on with it where it was: its folder knows. Returns at once but
        for what has to be asked of the broker: where `latest` is, which topics there are."""
        with self._lock:
            self._cluster.make_topics(query_id, plan, self._ground.service_id)
            query = _Query(query_id, plan, paused=paused)
            for stage in plan.stages:
                self._starts(query, stage)
                if paused:
                    self._companies.dismiss(_member_id(query_id, stage), keep=True)
            if not paused:
                self._begin(query)
            self._queries[query_id] = query

    def stop(self, query_id: str, *, keep: bool = False) -> None:
        """Ends a query. Its checkpoint and its internal topics go with it, unless they are kept."""
        with self._lock:
            query = self._queries.pop(query_id, None)
            if query is None:
                return
            self._end(query, keep=keep)
        if not keep:
            shutil.rmtree(self._query_dir(query_id), ignore_errors=True)
            service_id = self._ground.service_id
            self._cluster.delete_internal_topics(query_id, query.plan, service_id)

    def discard(self, query_id: str) -> None:
        """What is left of a query that was ended when nobody ran it."""
        home = self._query_dir(query_id)
        with self._lock:
            if query_id in self._queries or not home.is_dir():
                return
            for step in [each.name for each in home.iterdir()]:
                self._companies.dismiss(f"{home.name}/{step}", keep=False)
            shutil.rmtree(home, ignore_errors=True)
        self._cluster.delete_topics_of(query_id, self._ground.service_id)
        log.info("query %s was ended before: what was left of it is deleted", query_id)

    def pause(self, query_id: str) -> None:
        with self._lock:
            query = self._queries[query_id]
            self._end(query)
            query.paused = True

    def resume(self, query_id: str) -> None:
        """Goes on; also with a query that has FAILED."""
        with self._lock:
            query = self._queries[query_id]
            if query.parts and all(each.retry() for each in query.parts):
                return
            self._end(query)
            query.paused = False
            self._begin(query)

    def states(self) -> dict[str, QueryState]:
        """Without the lock: who asks should not wait for a query that is being stopped."""
        return {each.id: _state(each) for each in list(self._queries.values())}

    def state(self, query_id: str) -> QueryState:
        return _state(self._queries[query_id])

    @property
    def spark_queries(self) -> int:
        """How many Spark queries run for all of them."""
        return self._ground.pace.running

    def halt(self) -> None:
        """Stops all persistent queries, at once; every one of them can be started again."""
        with self._lock:
            parts = [part for query in self._queries.values() for part in query.parts]
            kept = [each.kept for each in parts if each.kept is not None]
            seats = [each.seat for each in parts if each.seat is not None]
            for feed in self._feeds.values():
                feed.close_soon()
            self._companies.close_soon()
            for each in kept:
                each.stop_soon()
            for seat in seats:
                seat.stop_soon()
            for feed in self._feeds.values():
                feed.close()
            self._companies.close()
            for each in kept:
                each.stop()
            for seat in seats:
                seat.close()
            self._companies = self._all_companies()
            self._queries.clear()
            self._feeds.clear()

    def close(self) -> None:
        for push in list(self._pushes.values()):
            push.close()
        self.halt()

    # Push and pull

    def push(self, plan: Plan) -> PushQuery:
        with self._lock:
            self._push_count += 1
            query_id = f"transient_{self._push_count}"
        home = self._dir / "push" / query_id
        home.mkdir(parents=True, exist_ok=True)

        def forget() -> None:
            self._pushes.pop(query_id, None)
            service_id = self._ground.service_id
            self._cluster.delete_internal_topics(query_id, plan, service_id)

        self._cluster.make_topics(query_id, plan, self._ground.service_id)
        query = PushQuery(query_id, plan, home, forget)
        parts = []
        for stage in plan.stages:
            sink = query.take if stage is plan.sink_stage else None
            starts = [self._start_of(each, plan) for each in stage.inputs]
            place = home / stage.step
            kept = self._kept(query_id, stage, starts, place, plan.properties, sink, watched=True)
            parts.append(kept)
        query.started(parts)
        self._pushes[query_id] = query
        for each in parts:
            each.start()
        return query

    def pull(self, pull: Pull, tables: Mapping[str, pa.Table] | None = None) -> Answer:
        """What Spark answers, over `tables` (rows by the name of their source) or over topics."""
        return self._pulls.answer(pull, tables or {})

    # Inside

    def _query_dir(self, query_id: str) -> Path:
        return self._dir / "queries" / quote(query_id, safe="")

    def _begin(self, query: _Query) -> None:
        """All parts or none: whoever tries again must not find some of them running."""
        try:
            for stage in query.plan.stages:
                query.parts.append(self._part(query, stage))
        except BaseException:
            self._end(query)
            raise

    def _end(self, query: _Query, *, keep: bool = True) -> None:
        for part in query.parts:
            part.stop(keep=keep)
            if part.feed is not None and not part.feed.members:
                self._close_feed(part.feed)
        query.parts = []

    def _close_feed(self, feed: Feed) -> None:
        feed.close()
        self._feeds = {key: each for key, each in self._feeds.items() if each is not feed}

    def _part(self, query: _Query, stage: Stage) -> _Part:
        starts = self._starts(query, stage)
        home = self._query_dir(query.id) / stage.step
        if stage.stateless and not stage.output.exploded:
            return self._member(query, stage, home, starts[0])
        if can_share(stage):
            return _Part(seat=self._companies.take(self._companion(query, stage, home, starts)))
        properties = query.plan.properties
        kept = self._kept(query.id, stage, starts, home / "checkpoint", properties)
        kept.start()
        return _Part(kept=kept)

    def _companion(
        self, query: _Query, stage: Stage, home: Path, starts: list[Position | None]
    ) -> Companion:
        member_id, properties = _member_id(query.id, stage), query.plan.properties
        candidate = Candidate(member_id, stage, stage.output.topic, starts[0] or {})
        checkpoint = home / "checkpoint"

        def begin_with(plan: Together) -> StreamingQuery:
            return self._ground.begin_together(
                candidate.operator,
                plan,
                [member_id],
                checkpoint,
                name=f"{query.id}_{stage.step}",
                properties=properties,
            )

        def kept() -> Kept:
            plan = alone_plan(home)
            if plan is not None:
                begin = partial(begin_with, plan)
                return Kept(f"{query.id} {stage.step}", begin, self._ground.pace)
            return self._kept(query.id, stage, starts, checkpoint, properties)

        return Companion(candidate, home, properties, kept)

    def _all_companies(self) -> Companies:
        return Companies(self._dir / "companies", self._ground)

    def _member(self, query: _Query, stage: Stage, home: Path, start: Position | None) -> _Part:
        source, output = stage.inputs[0], stage.output
        feed = self._feed(source)
        member_id = _member_id(query.id, stage)
        feed.join(
            Member(
                member_id,
                self._ground.topic_of(output, query.id),
                output.layout.to_json(),
                member_text(output),
                home,
                start or {},
                dict(query.plan.properties),
            )
        )
        return _Part(feed=feed, member_id=member_id)

    def _feed(self, source: Input) -> Feed:
        text = f"{source.topic}\n{source.kind}\n{source.layout.to_json()}"
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key not in self._feeds:
            self._feeds[key] = Feed(self._dir / "shared" / key, source, self._ground)
        return self._feeds[key]

    def _kept(
        self,
        query_id: str,
        stage: Stage,
        starts: list[Position | None],
        checkpoint: Path,
        properties: Mapping[str, str],
        sink: Callable[[DataFrame, int], None] | None = None,
        *,
        watched: bool = False,
    ) -> Kept:
        def begin() -> StreamingQuery:
            return self._ground.begin_stage(
                stage, query_id, starts, checkpoint, properties, sink, watched=watched
            )

        return Kept(f"{query_id} {stage.step}", begin, self._ground.pace)

    def _starts(self, query: _Query, stage: Stage) -> list[Position | None]:
        """Where each input begins. Written down once: `latest` is when the query was made."""
        path = self._query_dir(query.id) / stage.step / "start.json"
        known: list[Any] | None = read_json(path)
        if known is None:
            known = [self._start_of(each, query.plan) for each in stage.inputs]
            write_json(path, known)
        return list(known)

    def _start_of(self, source: Input, plan: Plan) -> Position | None:
        """None: from the beginning, whatever that is by then."""
        if source.internal:
            return None
        earliest = source.kind is SourceKind.TABLE or wants_earliest(plan.properties)
        return self._cluster.position(source.topic, earliest=earliest)


def _member_id(query_id: str, stage: Stage) -> str:
    """As its folder is named."""
    return f"{quote(query_id, safe='')}/{stage.step}"


def _state(query: _Query) -> QueryState:
    if query.paused:
        return QueryState(State.PAUSED)
    return worst(each.state() for each in list(query.parts))
