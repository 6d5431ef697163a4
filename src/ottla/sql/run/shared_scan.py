"""SharedScan: stateless stages with the same input share a Spark query; members come and go.

The rules that give every member each row exactly once:

1. Members change only between two batches. A query that was stopped in the middle of a batch first
   finishes it with the members that it started with (those in `members.json`), because the sink
   does not write again what tasks of that batch have committed. Only a member that leaves for good
   leaves at once: nobody needs its rows of that batch.
2. Each member has its own first position, `from`: earlier rows are left out of its column. A member
   that leaves takes its position with it (`position.json`).
3. A member that is behind the scan first runs alone, with its own checkpoint. When it has nearly
   caught up, the scan stops between two batches, the member runs to the end of the topic, and joins
   with `from` = its position. The scan then leaves out the rows that the member has written.

`members.json` decides: after a crash before it is written, the new member is still alone with its
checkpoint; after a crash behind it, a folder is left that is deleted later. The folder of a scan is
deleted with its last member.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Any, Final

from ottla.queries.failures import QueryFailure, cause_of
from ottla.queries.lifecycle import Recovery, StatusReport
from ottla.queries.query_run import QueryRun, completed
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryState, QueryStatus
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import (
    Position,
    QueryCheckpoint,
    distance,
    earliest_of,
    is_behind,
    read_json,
    write_json,
)
from ottla.sql.plan.stages import StageInput
from ottla.sql.run.query_runtime import QueryRuntime
from ottla.sql.run.scan_member import CatchUp, ScanMember

log = logging.getLogger("ottla.sql")

GATHER_S: Final = 0.2
"""Members that come within this time, as when a server starts, join in one change."""
RETURN_S: Final = 3.0
"""After a restart a scan waits this long for its former members."""
NEAR_RECORDS: Final = 20_000
"""A new member within this distance catches up while the scan waits for it."""
LEAVE_S_MAX: Final = 60.0
MEMBERS: Final = "members.json"
START: Final = "start.json"

Entry = dict[str, Any]


class SharedScan(QuerySpecification):
    """The members of one input, and the specification of their Spark query."""

    def __init__(
        self, home: Path, source: StageInput, runtime: QueryRuntime, supervisor: Supervisor
    ) -> None:
        super().__init__(f"scan_{source.topic}")
        self._home = home
        self._source = source
        self._runtime = runtime
        self._supervisor = supervisor
        self._checkpoint = QueryCheckpoint(home / "checkpoint")
        self._lock = threading.Condition()
        self._wanted: dict[str, ScanMember] = {}
        self._dropped: set[str] = set()
        """Members that have left for good."""
        self._entries: list[Entry] = read_json(home / MEMBERS) or []
        self._ready: set[str] = set()
        """Members that are catching up."""
        self._catching_up: dict[str, CatchUp] = {}
        self._failed: dict[str, QueryState] = {}
        self._gathering = False
        """A start is due, which will take all changes until then into account."""
        self._settling = False
        self._returned = False
        self._given_up = False
        self._closing = False
        self._query = supervisor.supervise(self)

    # -- called by others

    def join(self, member: ScanMember) -> None:
        with self._lock:
            self._wanted[member.id] = member
            self._dropped.discard(member.id)
            self._failed.pop(member.id, None)
            # While a start changes the members, the next start decides about this one. If both
            # `join` and a start did, two runs would write from one checkpoint, and rows come twice.
            settled = self._returned and not self._settling
            far = bool(self._entries) and settled and self._is_far(member)
            if far:
                self._catch_up(member)  # while the others go on
        if not far:
            self._change()

    def leave(self, member_id: str, *, keep: bool = True) -> None:
        """Remove a member; returns when nothing more is written for it (TimeoutError: it may be).
        `keep`: it may come back."""
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
        """Stop and keep everything: the next process continues from here."""
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
            return QueryState(QueryStatus.STARTING)
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
        """One failing member must not stop the others.

        Nothing of the unfinished batch was written, so it runs again without the members that
        failed it.
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

    def reported(self, report: StatusReport) -> None:
        if report.state in (QueryStatus.FAILED, QueryStatus.RUNNING):
            self._given_up = report.state is QueryStatus.FAILED

    # -- a start: gather, finish the batch, change the members

    def _gather(self, cancelled: Cancelled) -> None:
        """Wait until all changes of one request have arrived."""
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
        """True if all members of the last process are back."""
        return all(entry["id"] in self._wanted for entry in self._entries)

    def _leave_at_once(self) -> None:
        """Remove members that leave for good, and so need nothing of an unfinished batch. If the
        scan has FAILED, remove all that leave, because the batch can't be finished."""
        with self._lock:
            gone = set(self._dropped)
            if self._given_up:
                gone |= {entry["id"] for entry in self._entries if entry["id"] not in self._wanted}
            leaving = [entry for entry in self._entries if entry["id"] in gone]
        for entry in leaving:
            if entry["id"] not in self._dropped:
                self._let_go(entry)
        if leaving:
            self._store([entry for entry in self._entries if entry not in leaving])
        with self._lock:
            self._dropped -= gone

    def _finish_batch(self, cancelled: Cancelled) -> None:
        """Finish the current batch with the members that it started with."""
        if not self._entries or not self._checkpoint.exists or self._checkpoint.at_border:
            return
        if completed(QueryRun(self._begin(available_now=True), finite=True), cancelled):
            assert self._checkpoint.at_border

    def _settle(self, cancelled: Cancelled) -> None:
        """Between two batches: change the members to those that are wanted."""
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
        for member in [member for member in joining if self._entries and self._is_far(member)]:
            joining.remove(member)
            self._catch_up(member)
        if not joining and not leaving:
            return
        # Not by `_wanted`, which may have changed: its position would not be stored.
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
        """Add the first members: the scan starts at the earliest of their positions."""
        # An old checkpoint would continue at its own offsets, and ignore START.
        self._checkpoint.delete()
        fit = [
            member
            for member in joining
            if not member.unfinished or self._last_round(member, cancelled)
        ]
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
        """While the scan is stopped, run the new member to the scan's position or further."""
        try:
            return completed(member.begin_round(self._runtime, self._source), cancelled)
        except Exception as error:
            log.warning("Query %s failed to catch up, retrying: %s", member.id, cause_of(error))
            self._ready.discard(member.id)
            self._catch_up(member)  # retries, and gives up in the end
            return False

    def _begins(self, member: ScanMember) -> dict[str, int]:
        return dict(member.where().get(self._source.topic, {}))

    # -- joining and leaving

    def _is_far(self, member: ScanMember) -> bool:
        if member.id in self._ready or any(entry["id"] == member.id for entry in self._entries):
            return False
        return distance(member.where(), self._here()) > NEAR_RECORDS

    def _catch_up(self, member: ScanMember) -> None:
        def done(cause: str) -> None:
            with self._lock:
                if self._wanted.get(member.id) is not member:
                    return  # It has left meanwhile, and may even have joined again.
                self._catching_up.pop(member.id, None)
                if cause:
                    self._fail(member.id, cause)
                else:
                    self._ready.add(member.id)
            self._change()

        with self._lock:
            if self._closing or self._wanted.get(member.id) is not member:
                return
            log.info(
                "Query %s is catching up with the shared scan of %s", member.id, self._source.topic
            )
            made = CatchUp(self._supervisor, self._runtime, self._source, member, done)
            self._catching_up[member.id] = made

    def _let_go(self, entry: Entry) -> None:
        """Remove a member, and store its position in case it comes back."""
        topic = self._source.topic
        begins = entry["from"]
        here = self._here().get(topic, {})
        reached = {p: max(o, begins.get(p, 0)) for p, o in here.items()}
        home = self._home.parent.parent / "queries" / entry["id"]
        if home.exists():
            # A checkpoint of when it ran alone would be older than this position.
            QueryCheckpoint(home / "alone").delete()
            write_json(home / "position.json", {topic: {**begins, **reached}})

    def _fail(self, member_id: str, cause: str) -> None:
        self._failed[member_id] = QueryState(QueryStatus.FAILED, cause, int(time.time() * 1000))
        log.error("Query %s FAILED: %s", member_id, cause)

    def _tries_well(self, entry: Entry) -> bool:
        """Compute the failed batch for this member alone, without writing; True if that works."""
        try:
            self._runtime.try_member(self._source, entry, self._checkpoint.position())
        except Exception:
            return False
        return True

    # -- its folder

    def _here(self) -> Position:
        """The position of the scan: after its last batch, or its start."""
        start: Position = read_json(self._home / START) or {}
        return self._checkpoint.position() or start

    def _store(self, entries: list[Entry]) -> None:
        here = self._here().get(self._source.topic, {})
        for entry in entries:
            # Drop first positions that the scan has passed: they need no condition any more.
            entry["from"] = {p: o for p, o in entry["from"].items() if o > here.get(p, 0)}
        self._write(entries)

    def _write(self, entries: list[Entry]) -> None:
        with self._lock:
            # The file first: after a crash it decides about membership.
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
    """Remove a terminated member from a scan that is not open."""
    entries: list[Entry] = read_json(home / MEMBERS) or []
    left = [entry for entry in entries if entry["id"] != member_id]
    if not left:
        remove(home)
    elif len(left) < len(entries):
        write_json(home / MEMBERS, left)


def remove(home: Path) -> None:
    """Delete a scan; its members first, because they decide whether the folder is in use."""
    (home / MEMBERS).unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
