"""SharedQuery: aggregates that share a Spark query. They start together and leave one by one.

state_dir/companies/<name>/company.json   the plan (`fused_plan.FusedPlan`) and the members
                          checkpoint/     of the Spark query
state_dir/queries/<query>/<step>/alone.json, checkpoint/   of a member that has left and runs alone

The rules:

1. A new aggregate waits briefly for others that fit (`admission.py`). Then no more can join,
   because the columns of Spark's state are fixed.
2. `company.json` lists the members. After a restart the query writes for all members, even
   before they are back; `Queries` removes those that were terminated or paused meanwhile.
3. A member that leaves for good is no longer written. One that is paused, or whose sink fails,
   gets a copy of the checkpoint, made between two batches, and continues alone from there: with
   the state of all members, and with a new query id for the sink.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.queries.failures import QueryFailure
from ottla.queries.lifecycle import Recovery
from ottla.queries.query_run import QueryRun, completed
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryState, QueryStatus
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import QueryCheckpoint, read_json, write_json
from ottla.sql.plan.stages import StreamAggregateNode
from ottla.sql.run.fused_plan import Candidate, FusedPlan
from ottla.sql.run.query_runtime import QueryRuntime

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.sql")

GATHER_S: Final = 0.5
"""The statements of one request arrive one by one, a few round trips apart."""
RETURN_S: Final = 3.0
LEAVE_S_MAX: Final = 60.0
PLAN: Final = "company.json"
ALONE: Final = "alone.json"


@dataclass(frozen=True, slots=True)
class SharedMember:
    """An aggregate that may share a Spark query. Its id is the path of its folder, `home`."""

    candidate: Candidate
    home: Path
    properties: Mapping[str, str]
    alone: Callable[[], QuerySpecification]
    """Its specification if it runs alone."""

    @property
    def id(self) -> str:
        return self.candidate.id


class SharedQuery(QuerySpecification):
    """A shared Spark query. `home` has its plan, which `found` wrote in this or an earlier
    process."""

    def __init__(self, home: Path, runtime: QueryRuntime, supervisor: Supervisor) -> None:
        super().__init__(f"shared_{home.name}")
        self._home = home
        self._runtime = runtime
        stored = read_json(home / PLAN) or {}
        self._plan = FusedPlan.from_json(stored["plan"])
        self._outputs: list[str] = stored["outputs"]
        self._lock = threading.Condition()
        self._present: dict[str, SharedMember] = {}
        self._operator: StreamAggregateNode | None = None
        self._leaving: dict[str, bool] = {}
        """Members that are leaving, and whether they will continue alone."""
        self._failed: dict[str, QueryState] = {}
        self._begun = False
        self._closing = False
        self._query = supervisor.supervise(self)

    @staticmethod
    def found(home: Path, plan: FusedPlan) -> None:
        members = [member.id for member in plan.members]
        write_json(home / PLAN, {"plan": plan.to_json(), "outputs": members})

    # -- called by others

    @property
    def members(self) -> list[str]:
        """The ids of its members."""
        return list(self._outputs)

    def join(self, member: SharedMember) -> None:
        with self._lock:
            assert member.id in self._outputs
            self._present[member.id] = member
            self._operator = member.candidate.operator
            self._lock.notify_all()
            if not self._begun:
                self._begun = True
                self._query.begin()

    def leave(self, member_id: str, *, keep: bool) -> None:
        """Remove a member; returns when nothing more is written for it (TimeoutError: it may be).
        `keep`: it will continue alone."""
        with self._lock:
            self._present.pop(member_id, None)
            self._failed.pop(member_id, None)
            if member_id not in self._outputs:
                return
            if not self._begun or self._closing:
                return self._let_go({member_id: keep})
            self._leaving[member_id] = keep
            self._query.restart()
            if not self._lock.wait_for(lambda: member_id not in self._leaving, LEAVE_S_MAX):
                raise TimeoutError(f"Query {member_id} has not left {self.name}")

    def retry(self) -> None:
        """Restart now, even if no restart is due."""
        self._query.begin()

    def close_soon(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._query.stop_soon()

    def close(self) -> None:
        """Stop and keep everything: the next process continues from here."""
        self.close_soon()
        self._query.stop()
        with self._lock:
            self._leaving.clear()
            self._lock.notify_all()

    def state(self, member_id: str) -> QueryState:
        return self._failed.get(member_id) or self._query.state()

    # -- its specification

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        self._return(cancelled)
        self._settle(cancelled)
        if cancelled() or not self._outputs:
            return None
        return QueryRun(self._begin(available_now=False))

    def recover(self, failure: QueryFailure) -> Recovery:
        """Remove members whose sink fails. Nothing of the batch was written, so they get the state
        before it, and can be resumed from there."""
        topics = {member.id: member.topic for member in self._plan.members}
        culprits = [output for output in self._outputs if topics[output] in failure.refused_topics]
        if not culprits or len(culprits) == len(self._outputs):
            return Recovery.NONE
        self._let_go(dict.fromkeys(culprits, True))
        for member_id in culprits:
            now_ms = int(time.time() * 1000)
            self._failed[member_id] = QueryState(QueryStatus.FAILED, failure.cause, now_ms)
            self._present.pop(member_id, None)
            log.error("Query %s FAILED: %s", member_id, failure.cause)
        return Recovery.AT_ONCE

    @property
    def _checkpoint(self) -> QueryCheckpoint:
        return QueryCheckpoint(self._home / "checkpoint")

    def _return(self, cancelled: Cancelled) -> None:
        """After a restart, wait for the members, which bring their properties; then start for all
        of them, even those that are not back."""
        deadline = time.monotonic() + RETURN_S
        with self._lock:
            while not (cancelled() or self._closing or self._leaving or self._all_here()):
                if not self._lock.wait(max(deadline - time.monotonic(), 0.0)):
                    return

    def _all_here(self) -> bool:
        return all(member_id in self._present for member_id in self._outputs)

    def _begin(self, *, available_now: bool) -> StreamingQuery:
        assert self._operator is not None
        properties: dict[str, str] = {}
        for member in list(self._present.values()):
            properties.update(member.properties)
        return self._runtime.begin_fused(
            self._operator,
            self._plan,
            self._outputs,
            self._checkpoint.path,
            name=self.name,
            available_now=available_now,
            properties=properties,
        )

    # -- leaving

    def _settle(self, cancelled: Cancelled) -> None:
        """Several members may leave in one change."""
        while not cancelled():
            with self._lock:
                leaving = dict(self._leaving)
            if not leaving:
                return
            if any(leaving.values()):
                self._finish_batch(cancelled)
                if cancelled():
                    # The batch may be written and not committed: a copy of the checkpoint would
                    # write it again under another query id. The next start lets them go.
                    return
            self._let_go(leaving)
            with self._lock:
                for member_id in leaving:
                    self._leaving.pop(member_id, None)
                self._lock.notify_all()
                self._lock.wait_for(lambda: bool(self._leaving) or self._closing, GATHER_S)

    def _finish_batch(self, cancelled: Cancelled) -> None:
        """Finish the current batch with the members that it started with. If that fails, go on
        without: rows of a table may be written twice, because they are the same."""
        if not self._checkpoint.exists or self._checkpoint.at_border:
            return
        try:
            completed(QueryRun(self._begin(available_now=True), finite=True), cancelled)
        except Exception as error:
            log.warning("Shared query %s: failed to finish its last batch: %s", self.name, error)

    def _let_go(self, gone: Mapping[str, bool]) -> None:
        """Remove members; `company.json` is written last, because it lists the members."""
        for member_id, keep in gone.items():
            home = self._home.parent.parent / "queries" / member_id
            if keep and self._checkpoint.exists:
                copy_checkpoint(self._checkpoint.path, home / "checkpoint")
                write_json(home / ALONE, self._plan.to_json())
        left = [member_id for member_id in self._outputs if member_id not in gone]
        if left:
            write_json(self._home / PLAN, {"plan": self._plan.to_json(), "outputs": left})
        else:
            shutil.rmtree(self._home, ignore_errors=True)
        self._outputs = left


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint for another query: with a new query id for the sink, and without an
    unfinished batch."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name("checkpoint.new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    done = QueryCheckpoint(draft).last_done
    for path in (draft / "offsets").iterdir():
        name = path.name.strip(".").removesuffix(".crc")
        if name.isdigit() and int(name) > done:
            path.unlink()
    for path in draft.glob("*metadata.crc"):
        path.unlink()
    (draft / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    draft.rename(target)
