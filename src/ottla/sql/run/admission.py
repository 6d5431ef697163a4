"""Admission: aggregates wait for others to share a Spark query with; each gets a placement."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from pathlib import Path
from typing import Final

from ottla.queries.states import QueryState, QueryStatus
from ottla.queries.supervisor import SupervisedQuery, Supervisor
from ottla.spark.checkpoints import QueryCheckpoint, read_json
from ottla.sql.run.fused_plan import FusedPlan, fused, fusion_key
from ottla.sql.run.query_runtime import QueryRuntime
from ottla.sql.run.shared_query import ALONE, GATHER_S, PLAN, SharedMember, SharedQuery

log = logging.getLogger("ottla.sql")

STARTING: Final = QueryState(QueryStatus.STARTING)


class Placement:
    """Where an aggregate runs: not yet, alone, or in a shared query."""

    def __init__(self, member: SharedMember, supervisor: Supervisor) -> None:
        self.member = member
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._left = False
        self._alone: SupervisedQuery | None = None
        self._shared: SharedQuery | None = None

    def run_alone(self) -> None:
        with self._lock:
            if not self._left:
                self._alone = self._supervisor.supervise(self.member.alone())
                self._alone.begin()

    def share(self, shared: SharedQuery) -> None:
        with self._lock:
            if not self._left:
                self._shared = shared
                shared.join(self.member)
                return
        shared.leave(self.member.id, keep=True)

    @property
    def left(self) -> bool:
        return self._left

    def state(self) -> QueryState:
        if self._alone is not None:
            return self._alone.state()
        return STARTING if self._shared is None else self._shared.state(self.member.id)

    def retry(self) -> bool:
        """Ask for an early restart; False if that is impossible and it must be started again."""
        shared = self._shared
        if shared is None or self.member.id not in shared.members:
            return False
        shared.retry()
        return True

    def stop_soon(self) -> None:
        if self._alone is not None:
            self._alone.stop_soon()

    def stop(self, *, keep: bool) -> None:
        """`keep`: it will continue from its own folder."""
        with self._lock:
            self._left = True
            alone, shared = self._alone, self._shared
        if alone is not None:
            alone.stop_or_raise()
        if shared is not None:
            shared.leave(self.member.id, keep=keep)

    def close(self) -> None:
        """The process ends: the members of a shared query stay the same."""
        with self._lock:
            self._left = True
        if self._alone is not None:
            self._alone.stop()


class Admission:
    """All shared queries of a state directory, and the aggregates that wait for one."""

    def __init__(self, folder: Path, runtime: QueryRuntime, supervisor: Supervisor) -> None:
        self._folder = folder
        self._runtime = runtime
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._waiting: dict[str, list[Placement]] = {}
        self._threads: list[threading.Thread] = []
        self._queries = [SharedQuery(home, runtime, supervisor) for home in _stored(folder)]

    def take(self, member: SharedMember) -> Placement:
        """Place it in its former shared query, or alone if it has left that; else let it wait."""
        placement = Placement(member, self._supervisor)
        shared = self.of(member.id)
        if shared is not None:
            _forget_alone(member.home)
            placement.share(shared)
        elif QueryCheckpoint(member.home / "checkpoint").exists:
            placement.run_alone()
        else:
            self._wait(placement)
        return placement

    def of(self, member_id: str) -> SharedQuery | None:
        with self._lock:
            self._queries = [query for query in self._queries if query.members]
            return next((query for query in self._queries if member_id in query.members), None)

    def dismiss(self, member_id: str, *, keep: bool) -> None:
        """Remove a member that was terminated or paused while its shared query did not run."""
        shared = self.of(member_id)
        if shared is not None:
            shared.leave(member_id, keep=keep)

    def close_soon(self) -> None:
        self._closing.set()
        for query in self._queries:
            query.close_soon()

    def close(self) -> None:
        self.close_soon()
        for thread in self._threads:
            thread.join()
        for query in self._queries:
            query.close()

    # -- waiting

    def _wait(self, placement: Placement) -> None:
        key = fusion_key(placement.member.candidate.stage)
        with self._lock:
            if key in self._waiting:
                self._waiting[key].append(placement)
                return
            self._waiting[key] = [placement]
            thread = threading.Thread(target=self._gather, args=(key,), name="admit", daemon=True)
            self._threads = [thread for thread in self._threads if thread.is_alive()] + [thread]
            thread.start()

    def _gather(self, key: str) -> None:
        """Wait until no more aggregates come, then place them."""
        seen = 1
        while True:
            self._wait_a_moment()
            with self._lock:
                placements = self._waiting[key]
                if len(placements) == seen or self._closing.is_set():
                    del self._waiting[key]
                    break
                seen = len(placements)
        if self._closing.is_set():
            return
        try:
            self._place([placement for placement in placements if not placement.left])
        except Exception:
            log.exception("Failed to create a shared Spark query; its queries run alone")
            for placement in placements:
                placement.run_alone()

    def _wait_a_moment(self) -> None:
        self._closing.wait(GATHER_S)

    def _place(self, placements: list[Placement]) -> None:
        by_id = {placement.member.id: placement for placement in placements}
        candidates = [placement.member.candidate for placement in placements]
        for plan in fused(candidates) if candidates else ():
            ids = [member.id for member in plan.members]
            if len(ids) == 1:
                by_id[ids[0]].run_alone()
                continue
            shared = self._founded(plan)
            log.info("Queries %s share the Spark query %s", ", ".join(ids), shared.name)
            for member_id in ids:
                by_id[member_id].share(shared)

    def _founded(self, plan: FusedPlan) -> SharedQuery:
        home = self._folder / uuid.uuid4().hex[:12]
        SharedQuery.found(home, plan)
        made = SharedQuery(home, self._runtime, self._supervisor)
        with self._lock:
            self._queries.append(made)
        return made


def alone_plan(home: Path) -> FusedPlan | None:
    """The plan of an aggregate that has left a shared query with a copy of its state."""
    stored = read_json(home / ALONE)
    return FusedPlan.from_json(stored) if stored else None


def _forget_alone(home: Path) -> None:
    """Undo an unfinished departure: the process ended before the shared query dropped the
    member."""
    (home / ALONE).unlink(missing_ok=True)
    shutil.rmtree(home / "checkpoint", ignore_errors=True)


def _stored(folder: Path) -> list[Path]:
    homes = sorted(folder.iterdir()) if folder.is_dir() else []
    return [home for home in homes if (home / PLAN).exists()]
