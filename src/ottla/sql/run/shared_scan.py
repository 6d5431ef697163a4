"""SharedScan: stateless queries on one input share one Spark query, whose members come and go.

The rules that keep every row exactly once for every member:

1. Members change at a border only: between two batches. A query that was stopped in the middle of
   a batch first finishes that batch with the members it began with (`members.json` says which),
   because the sink does not write again what tasks of that batch have committed. Only a member that
   leaves for good leaves at once: nobody asks for its rows of that batch any more.
2. Each member has a position of its own to begin at, `from`: rows before it are left out of its
   column. A member that leaves takes its position with it (`position.json`).
3. One that is behind the scan first runs alone, from a checkpoint of its own. When it has nearly
   caught up the scan stops at a border, the newcomer runs to the end of the topic, and joins with
   `from` = where it got to. The scan then passes over what the newcomer has had already.

What is written to `members.json` is what counts: a crash before that leaves the newcomer alone with
its checkpoint, a crash after it leaves a folder that is deleted later. The folder of a scan goes
with its last member.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Any, Final

from ottla.queries.failures import QueryFailure, cause_of
from ottla.queries.lifecycle import Recovery, Report
from ottla.queries.query_run import QueryRun, completed
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryState, State
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import (
    Checkpoint,
    Position,
    distance,
    earliest_of,
    is_behind,
    read_json,
    write_json,
)
from ottla.sql.plan.stages import Input
from ottla.sql.run.query_runtime import QueryRuntime
from ottla.sql.run.scan_member import CatchUp, ScanMember

log = logging.getLogger("ottla.sql")

GATHER_S: Final = 0.2
"""Several members that come at once, as when a server starts, are one change."""
RETURN_S: Final = 3.0
"""So long a scan of a new process waits for the members that it had."""
NEAR_RECORDS: Final = 20_000
"""A newcomer that is no further behind catches up while the scan waits for it."""
LEAVE_S_MAX: Final = 60.0
MEMBERS: Final = "members.json"
START: Final = "start.json"

Entry = dict[str, Any]


class SharedScan(QuerySpecification):
    """The members of one input, and the specification of their Spark query."""

    def __init__(
        self, home: Path, source: Input, runtime: QueryRuntime, supervisor: Supervisor
    ) -> None:
        super().__init__(f"scan_{source.topic}")
        self._home = home
        self._source = source
        self._runtime = runtime
        self._supervisor = supervisor
        self._checkpoint = Checkpoint(home / "checkpoint")
        self._lock = threading.Condition()
        self._wanted: dict[str, ScanMember] = {}
        self._dropped: set[str] = set()
        """Members that have left for good."""
        self._entries: list[Entry] = read_json(home / MEMBERS) or []
        self._ready: set[str] = set()
        """Members that are about to have caught up."""
        self._catching_up: dict[str, CatchUp] = {}
        self._failed: dict[str, QueryState] = {}
        self._gathering = False
        """A start is on its way that will see whatever is wanted by then."""
        self._settling = False
        self._returned = False
        self._given_up = False
        self._closing = False
        self._query = supervisor.supervise(self)

    # -- what others call

    def join(self, member: ScanMember) -> None:
        with self._lock:
            self._wanted[member.id] = member
            self._dropped.discard(member.id)
            self._failed.pop(member.id, None)
            far = bool(self._entries) and self._returned and self._is_far(member)
        if far:
            self._catch_up(member)  # while the others go on
        else:
            self._change()

    def leave(self, member_id: str, *, keep: bool = True) -> None:
        """Returns when nothing is written for it any more (TimeoutError: it may be). `keep`: it
        may come back."""
        with self._lock:
            self._wanted.pop(member_id, None)
            catching_up = self._catching_up.pop(member_id, None)
            self._ready.discard(member_id)
            if not keep:
                self._dropped.add(member_id)
        if catching_up is not None:
            catching_up.stop()
        if not self._is_out(member_id):
            self._change()
            with self._lock:
                if not self._lock.wait_for(lambda: self._is_out(member_id), LEAVE_S_MAX):
                    raise TimeoutError(f"Query {member_id} has not left {self.name}")

    def close_soon(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._query.stop_soon()

    def close(self) -> None:
        """Stops, and keeps everything: the next process goes on from here."""
        self.close_soon()
        for catching_up in list(self._catching_up.values()):
            catching_up.stop()
        self._query.stop()

    @property
    def members(self) -> list[str]:
        return list(self._wanted)

    def state(self, member_id: str) -> QueryState:
        own = self._failed.get(member_id)
        if own is not None:
            return own
        catching_up = self._catching_up.get(member_id)
        if catching_up is not None:
            return catching_up.state
        if not any(entry["id"] == member_id for entry in self._entries):
            return QueryState(State.STARTING)
        return self._query.state()

    def _change(self) -> None:
        with self._lock:
            if self._gathering or self._closing:
                self._lock.notify_all()
                return
        self._query.restart()

    def _is_out(self, member_id: str) -> bool:
        if self._closing:
            return True
        return not self._settling and all(entry["id"] != member_id for entry in self._entries)

    # -- its specification

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        try:
            self._gather(cancelled)
            self._leave_at_once()
            self._finish_batch(cancelled)
            if not cancelled():
                self._settle(cancelled)
        finally:
            with self._lock:
                self._gathering = False
        if cancelled() or not self._entries:
            return None
        return QueryRun(self._begin(available_now=False))

    def recover(self, failure: QueryFailure) -> Recovery:
        """One bad member must not take the others with it.

        The unfinished batch, of which nobody has seen anything, runs again without the culprits.
        """
        culprits = [entry for entry in self._entries if entry["topic"] in failure.refused_topics]
        if not culprits and len(self._entries) > 1:
            culprits = [entry for entry in self._entries if not self._tries_well(entry)]
        if not culprits or len(culprits) == len(self._entries):
            return Recovery.NONE
        for entry in culprits:
            self._let_go(entry)
            self._fail(entry["id"], failure.cause)
        self._write([entry for entry in self._entries if entry not in culprits])
        return Recovery.AT_ONCE

    def reported(self, report: Report) -> None:
        if report.state in (State.FAILED, State.RUNNING):
            self._given_up = report.state is State.FAILED

    # -- a start: gather, finish the batch, change the members

    def _gather(self, cancelled: Cancelled) -> None:
        """Lets a change that has begun come to its end."""
        with self._lock:
            self._gathering = True
            if not self._returned:
                self._lock.wait_for(lambda: self._all_back() or self._closing, RETURN_S)
                self._returned = True
            seen = -1
            while seen != len(self._wanted) and not self._closing and not cancelled():
                seen = len(self._wanted)
                self._lock.wait(GATHER_S)

    def _all_back(self) -> bool:
        """Those who were there when the last process ended."""
        return all(entry["id"] in self._wanted for entry in self._entries)

    def _leave_at_once(self) -> None:
        """Those who need nothing of the batch that may be unfinished; or, after the scan has been
        given up, those who leave a batch that can't be finished."""
        with self._lock:
            gone = set(self._dropped)
            if self._given_up:
                gone |= {each["id"] for each in self._entries if each["id"] not in self._wanted}
            leaving = [entry for entry in self._entries if entry["id"] in gone]
        for entry in leaving:
            if entry["id"] not in self._dropped:
                self._let_go(entry)
        if leaving:
            self._store([entry for entry in self._entries if entry not in leaving])
        with self._lock:
            self._dropped -= gone

    def _finish_batch(self, cancelled: Cancelled) -> None:
        """To a border, with the members that the unfinished batch began with."""
        if not self._entries or not self._checkpoint.exists or self._checkpoint.at_border:
            return
        if completed(QueryRun(self._begin(available_now=True), finite=True), cancelled):
            assert self._checkpoint.at_border

    def _settle(self, cancelled: Cancelled) -> None:
        """At a border: makes the members those that are wanted."""
        with self._lock:
            self._settling = True
            self._gathering = False
            joining, leaving = self._differences()
        try:
            self._admit_all(joining, leaving, cancelled)
        finally:
            with self._lock:
                self._settling = False
                self._lock.notify_all()

    def _differences(self) -> tuple[list[ScanMember], list[str]]:
        there = {entry["id"]: entry for entry in self._entries}
        joining = [
            member
            for member in self._wanted.values()
            if (member.id not in there or member.differs(there[member.id]))
            and member.id not in self._catching_up
            and member.id not in self._failed
        ]
        return joining, [member_id for member_id in there if member_id not in self._wanted]

    def _admit_all(
        self, joining: list[ScanMember], leaving: list[str], cancelled: Cancelled
    ) -> None:
        for member in [each for each in joining if self._entries and self._is_far(each)]:
            joining.remove(member)
            self._catch_up(member)
        if not joining and not leaving:
            return
        # Not by what is wanted now: who has left since has not been let go.
        entries = [entry for entry in self._entries if entry["id"] not in leaving]
        for entry in self._entries:
            if entry["id"] in leaving:
                self._let_go(entry)
        if not self._entries:
            entries = self._open(joining, cancelled)
        else:
            here = self._here()
            for member in joining:
                entries = self._admit(member, entries, here, cancelled)
        self._store(entries)
        admitted = {entry["id"] for entry in entries}
        for member in joining:
            if member.id in admitted:
                member.alone.delete()
                (member.home / "position.json").unlink(missing_ok=True)
                self._ready.discard(member.id)

    def _open(self, joining: list[ScanMember], cancelled: Cancelled) -> list[Entry]:
        """The first members: the scan begins where the first of them does."""
        self._checkpoint.delete()
        fit = [each for each in joining if not each.unfinished or self._last_round(each, cancelled)]
        if fit:
            write_json(self._home / START, earliest_of([member.where() for member in fit]))
        return [member.entry(self._begins(member)) for member in fit]

    def _admit(
        self, member: ScanMember, entries: list[Entry], here: Position, cancelled: Cancelled
    ) -> list[Entry]:
        old = next((entry for entry in entries if entry["id"] == member.id), None)
        if old is not None:
            begins = old["from"]
            return [member.entry(begins) if entry is old else entry for entry in entries]
        behind = member.unfinished or is_behind(member.where(), here)
        if behind and not self._last_round(member, cancelled):
            return entries
        return [*entries, member.entry(self._begins(member))]

    def _last_round(self, member: ScanMember, cancelled: Cancelled) -> bool:
        """While the scan stands still: the newcomer comes to where the scan is, or further."""
        try:
            return completed(member.begin_round(self._runtime, self._source), cancelled)
        except Exception as error:
            log.warning("Query %s stays behind for now: %s", member.id, cause_of(error))
            self._ready.discard(member.id)
            self._catch_up(member)  # which tries again, and knows when to give up
            return False

    def _begins(self, member: ScanMember) -> dict[str, int]:
        return dict(member.where().get(self._source.topic, {}))

    # -- members that come and go

    def _is_far(self, member: ScanMember) -> bool:
        if member.id in self._ready or any(entry["id"] == member.id for entry in self._entries):
            return False
        return distance(member.where(), self._here()) > NEAR_RECORDS

    def _catch_up(self, member: ScanMember) -> None:
        def done(cause: str) -> None:
            with self._lock:
                if self._wanted.get(member.id) is not member:
                    return  # It has left meanwhile, and may even be back.
                self._catching_up.pop(member.id, None)
                if cause:
                    self._fail(member.id, cause)
                else:
                    self._ready.add(member.id)
            self._change()

        with self._lock:
            if self._closing or self._wanted.get(member.id) is not member:
                return
            log.info("Query %s catches up with the others on %s", member.id, self._source.topic)
            made = CatchUp(self._supervisor, self._runtime, self._source, member, done)
            self._catching_up[member.id] = made

    def _let_go(self, entry: Entry) -> None:
        """It takes its position along, in case that it comes back."""
        topic = self._source.topic
        begins = entry["from"]
        here = self._here().get(topic, {})
        reached = {p: max(o, begins.get(p, 0)) for p, o in here.items()}
        home = self._home.parent.parent / "queries" / entry["id"]
        if home.exists():
            # What may be left of the time when it was alone is older than what is written here.
            Checkpoint(home / "alone").delete()
            write_json(home / "position.json", {topic: {**begins, **reached}})

    def _fail(self, member_id: str, cause: str) -> None:
        self._failed[member_id] = QueryState(State.FAILED, cause, int(time.time() * 1000))
        log.error("Query %s is FAILED: %s", member_id, cause)

    def _tries_well(self, entry: Entry) -> bool:
        """The rows of the batch that failed, with this member alone, and nothing written."""
        try:
            self._runtime.try_member(self._source, entry, self._checkpoint.position())
        except Exception:
            return False
        return True

    # -- its folder

    def _here(self) -> Position:
        """Where the scan goes on: after its last batch, or where it began."""
        start: Position = read_json(self._home / START) or {}
        return self._checkpoint.position() or start

    def _store(self, entries: list[Entry]) -> None:
        here = self._here().get(self._source.topic, {})
        for entry in entries:
            # What the scan has passed needs no condition any more.
            entry["from"] = {p: o for p, o in entry["from"].items() if o > here.get(p, 0)}
        self._write(entries)

    def _write(self, entries: list[Entry]) -> None:
        with self._lock:
            if entries:
                write_json(self._home / MEMBERS, entries)
            else:
                remove(self._home)
            self._entries = entries
            self._lock.notify_all()

    def _begin(self, *, available_now: bool) -> Any:
        properties: dict[str, str] = {}
        for member in list(self._wanted.values()):
            properties.update(member.properties)
        return self._runtime.begin_members(
            self._source,
            self._entries,
            read_json(self._home / START),
            self._checkpoint.path,
            name=self.name,
            available_now=available_now,
            properties=properties,
        )


def forget_member(home: Path, member_id: str) -> None:
    """Of a scan that nobody has opened: its member has ended meanwhile."""
    entries: list[Entry] = read_json(home / MEMBERS) or []
    left = [entry for entry in entries if entry["id"] != member_id]
    if not left:
        remove(home)
    elif len(left) < len(entries):
        write_json(home / MEMBERS, left)


def remove(home: Path) -> None:
    """What counts is written first: without its members a folder is nothing."""
    (home / MEMBERS).unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
