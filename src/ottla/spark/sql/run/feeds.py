"""Stateless queries on one input share one Spark query: a feed, whose members come and go.

The rules that keep every row exactly once for every member:

1. Members change at a border only: between two batches. A query that was stopped in the middle of
   a batch first finishes that batch with the members it began with (`members.json` says which),
   because the sink does not write again what tasks of that batch have committed.
2. Each member has a position of its own to begin at, `from`: rows before it are left out of its
   column. A member that leaves takes its position with it (`position.json`).
3. One that is behind the feed first runs alone, from a checkpoint of its own. When it has nearly
   caught up the feed stops at a border, the newcomer runs to the end of the topic, and joins with
   `from` = where it got to. The feed then passes over what the newcomer has had already.

What is written to `members.json` is what counts: a crash before that leaves the newcomer alone with
its checkpoint, a crash after it leaves a folder that is deleted later.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.spark.running.causes import cause_of, text_of
from ottla.spark.running.checkpoints import (
    Checkpoint,
    Position,
    distance,
    earliest_of,
    is_behind,
    read_json,
    write_json,
)
from ottla.spark.running.kept import ENDED, STOP_S_MAX, Failed, Spell, progress_of, stop_quietly
from ottla.spark.running.states import QueryState, State, Tries
from ottla.spark.sql.plan.stages import Input
from ottla.spark.sql.run.spells import Ground

log = logging.getLogger("ottla.sql")

GATHER_S: Final = 0.2
"""Several members that come at once, as when a server starts, are one change."""
RETURN_S: Final = 3.0
"""So long a feed of a new process waits for the members that it had."""
NEAR_RECORDS: Final = 20_000
"""A newcomer that is no further behind catches up while the feed waits for it."""
CAUGHT_UP_S: Final = 5.0
"""A round of catching up that took no longer is followed by the last one."""
ROUNDS_MAX: Final = 10
APPLIED_S_MAX: Final = 60.0


@dataclass
class Member:
    """A stateless stage of a query. `home` is its own folder, `start` where it wants to begin."""

    id: str
    topic: str
    layout: str
    text: str
    home: Path
    start: Position
    properties: dict[str, str] = field(default_factory=dict)

    def entry(self, begins: dict[str, int]) -> dict[str, Any]:
        return {
            "id": self.id,
            "topic": self.topic,
            "layout": self.layout,
            "text": self.text,
            "from": begins,
        }

    def differs(self, entry: dict[str, Any]) -> bool:
        return any(entry[each] != getattr(self, each) for each in ("topic", "layout", "text"))

    @property
    def alone(self) -> Checkpoint:
        return Checkpoint(self.home / "alone")

    @property
    def unfinished(self) -> bool:
        """Alone, it was stopped in the middle of a batch."""
        return self.alone.exists and not self.alone.at_border

    def where(self) -> Position:
        """What it has to read next: as it went on alone, as it left a feed, or as it began."""
        left: Position | None = read_json(self.home / "position.json")
        return self.alone.position() or left or self.start


class Feed:
    """The members of one input and their Spark query, on a thread of its own."""

    def __init__(self, home: Path, source: Input, ground: Ground) -> None:
        self._home = home
        self._source = source
        self._ground = ground
        self._checkpoint = Checkpoint(home / "checkpoint")
        self._lock = threading.Condition()
        self._wanted: dict[str, Member] = {}
        self._changed = False
        self._closing = False
        self._gathered = False
        self._settling = False
        self._ready: set[str] = set()
        """Members that are about to have caught up."""
        self._catching_up: dict[str, CatchUp] = {}
        self._entries: list[dict[str, Any]] = read_json(home / "members.json") or []
        self._states: dict[str, QueryState] = {}
        self._state = QueryState(State.STARTING)
        self._spell: Spell | None = None
        self._tries = Tries()
        self._thread = threading.Thread(target=self._keep, name=f"feed {source.topic}", daemon=True)
        self._thread.start()

    # What others call

    def join(self, member: Member) -> None:
        with self._lock:
            self._wanted[member.id] = member
            self._states.pop(member.id, None)
            self._changed = True
            self._lock.notify_all()

    def leave(self, member_id: str) -> None:
        """Returns when it has left: nothing is written for it any more."""
        with self._lock:
            self._wanted.pop(member_id, None)
            catching_up = self._catching_up.pop(member_id, None)
            self._ready.discard(member_id)
        if catching_up is not None:
            catching_up.stop()
        with self._lock:
            self._changed = True
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._is_out(member_id), APPLIED_S_MAX)

    def close_soon(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()

    def close(self) -> None:
        """Stops, and keeps everything: the next process goes on from here."""
        self.close_soon()
        for each in list(self._catching_up.values()):
            each.stop()
        self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            log.warning("the feed of %s has not stopped", self._source.topic)

    @property
    def members(self) -> list[str]:
        return list(self._wanted)

    def state(self, member_id: str) -> QueryState:
        own = self._states.get(member_id)
        if own is not None:
            return own
        catching_up = self._catching_up.get(member_id)
        if catching_up is not None:
            return catching_up.state
        if not any(each["id"] == member_id for each in self._entries):
            return QueryState(State.STARTING)
        shared = self._state
        return QueryState(
            shared.state,
            shared.cause,
            shared.failed_ms,
            self._tries.restarts,
            **progress_of(self._spell),
        )

    def _is_out(self, member_id: str) -> bool:
        if not self._thread.is_alive():
            return True
        return not self._settling and all(each["id"] != member_id for each in self._entries)

    # The feed's own thread

    def _keep(self) -> None:
        """Whatever comes: a thread that is gone has said why."""
        try:
            self._work()
        except Exception as error:
            log.exception("the feed of %s is not kept any more", self._source.topic)
            self._state = QueryState(State.FAILED, cause_of(error), int(time.time() * 1000))
        self._stop()

    def _work(self) -> None:
        while True:
            self._gather()
            if self._closing:
                break
            began = time.monotonic()
            try:
                self._finish_batch()
                if not self._closing:
                    self._settle()
                    self._run()
            except Exception as error:
                if not self._again(error, time.monotonic() - began):
                    self._wait_for_change()
                    self._dismiss()

    def _gather(self) -> None:
        """Lets a change that has begun come to its end."""
        with self._lock:
            self._lock.wait_for(lambda: self._wanted or self._entries or self._closing)
            if not self._gathered:
                self._gathered = True
                self._lock.wait_for(lambda: self._all_back() or self._closing, RETURN_S)
            seen = -1
            while seen != len(self._wanted) and not self._closing:
                seen = len(self._wanted)
                self._lock.wait(GATHER_S)
            self._changed = False

    def _all_back(self) -> bool:
        """Those who were there when the last process ended."""
        return all(each["id"] in self._wanted for each in self._entries)

    def _wait_for_change(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._changed or self._closing)

    def _pending(self) -> bool:
        return self._changed or self._closing

    def _run(self) -> None:
        """Runs with the members there are until something changes."""
        if not self._entries:
            return self._wait_for_change()
        with self._ground.pace.counted():
            self._spell = Spell(self._begin(available_now=False))
            self._state = QueryState(State.RUNNING)
            if self._spell.wait(self._change_that_matters):
                raise Failed(ENDED)
            self._stop()

    def _change_that_matters(self) -> bool:
        """A newcomer far behind starts to catch up without the feed being stopped for it."""
        if not self._pending() or self._closing:
            return self._closing
        with self._lock:
            self._changed = False
            joining, leaving = self._differences()
        far = [each for each in joining if self._is_far(each)]
        for each in far:
            self._catch_up(each)
        return bool(leaving) or len(far) < len(joining)

    def _is_far(self, member: Member) -> bool:
        if member.id in self._ready or any(each["id"] == member.id for each in self._entries):
            return False
        return distance(member.where(), self._here()) > NEAR_RECORDS

    def _here(self) -> Position:
        """Where the feed goes on: after its last batch, or where it began."""
        start: Position = read_json(self._home / "start.json") or {}
        return self._checkpoint.position() or start

    def _differences(self) -> tuple[list[Member], list[str]]:
        there = {each["id"]: each for each in self._entries}
        joining = [
            each
            for each in self._wanted.values()
            if each.id not in there or each.differs(there[each.id])
        ]
        joining = [e for e in joining if e.id not in self._catching_up and not self._gave_up(e.id)]
        return joining, [each for each in there if each not in self._wanted]

    def _gave_up(self, member_id: str) -> bool:
        own = self._states.get(member_id)
        return own is not None and own.state is State.FAILED

    def _begin(self, *, available_now: bool) -> Any:
        start = read_json(self._home / "start.json")
        return self._ground.begin_members(
            self._source,
            self._entries,
            start,
            self._checkpoint.path,
            name=f"feed_{self._source.topic}",
            available_now=available_now,
            properties=self._properties(),
        )

    def _properties(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for each in self._wanted.values():
            merged.update(each.properties)
        return merged

    def _stop(self) -> None:
        if self._spell is not None:
            stop_quietly(self._spell, f"feed {self._source.topic}")
            self._spell = None

    def _finish_batch(self) -> None:
        """To a border, with the members that the unfinished batch began with."""
        if self._entries and self._checkpoint.exists and not self._checkpoint.at_border:
            spell = Spell(self._begin(available_now=True))
            if spell.wait(lambda: self._closing):
                assert self._checkpoint.at_border
            else:
                stop_quietly(spell, f"feed {self._source.topic}")

    # Changes, at a border

    def _settle(self) -> None:
        with self._lock:
            self._settling = True
        try:
            self._change()
        finally:
            with self._lock:
                self._settling = False
                self._lock.notify_all()

    def _change(self) -> None:
        """Makes the members those that are wanted."""
        with self._lock:
            joining, leaving = self._differences()
        for each in [each for each in joining if self._entries and self._is_far(each)]:
            joining.remove(each)
            self._catch_up(each)
        if not joining and not leaving:
            return
        here = self._here()
        # Not by what is wanted now: who has left since has not been let go.
        entries = [each for each in self._entries if each["id"] not in leaving]
        for entry in self._entries:
            if entry["id"] in leaving:
                self._let_go(entry, here)
        if not self._entries:
            entries = self._open(joining)
        else:
            for member in joining:
                entries = self._admit(member, entries, here)
        self._store(entries)
        for member in joining:
            if any(each["id"] == member.id for each in entries):
                member.alone.delete()
                (member.home / "position.json").unlink(missing_ok=True)
                self._ready.discard(member.id)

    def _open(self, joining: list[Member]) -> list[dict[str, Any]]:
        """The first members: the feed begins where the first of them does."""
        self._checkpoint.delete()
        fit = [each for each in joining if not each.unfinished or self._last_round(each)]
        if fit:
            write_json(self._home / "start.json", earliest_of([each.where() for each in fit]))
        return [each.entry(dict(each.where().get(self._source.topic, {}))) for each in fit]

    def _admit(
        self, member: Member, entries: list[dict[str, Any]], here: Position
    ) -> list[dict[str, Any]]:
        old = next((each for each in entries if each["id"] == member.id), None)
        if old is not None:
            begins = old["from"]
            return [member.entry(begins) if each is old else each for each in entries]
        behind = member.unfinished or is_behind(member.where(), here)
        if behind and not self._last_round(member):
            return entries
        return [*entries, member.entry(dict(member.where().get(self._source.topic, {})))]

    def _last_round(self, member: Member) -> bool:
        """While the feed stands still: the newcomer comes to where the feed is, or further."""
        try:
            CatchUp.round(self._ground, self._source, member, lambda: self._closing)
        except Exception as error:
            log.warning("query %s stays behind for now: %s", member.id, cause_of(error))
            self._ready.discard(member.id)
            self._catch_up(member)  # which tries again, and knows when to give up
            return False
        return not self._closing

    def _let_go(self, entry: dict[str, Any], here: Position) -> None:
        """It takes its position along, in case that it comes back."""
        topic = self._source.topic
        begins = entry["from"]
        reached = {p: max(o, begins.get(p, 0)) for p, o in here.get(topic, {}).items()}
        home = self._home.parent.parent / "queries" / entry["id"]
        if home.exists():
            # What may be left of the time when it was alone is older than what is written here.
            Checkpoint(home / "alone").delete()
            write_json(home / "position.json", {topic: {**begins, **reached}})

    def _store(self, entries: list[dict[str, Any]]) -> None:
        with self._lock:
            here = self._here().get(self._source.topic, {})
            for each in entries:
                # What the feed has passed needs no condition any more.
                each["from"] = {p: o for p, o in each["from"].items() if o > here.get(p, 0)}
            write_json(self._home / "members.json", entries)
            self._entries = entries
            if not entries:
                self._checkpoint.delete()
                (self._home / "start.json").unlink(missing_ok=True)
            self._lock.notify_all()

    def _catch_up(self, member: Member) -> None:
        def done(cause: str) -> None:
            with self._lock:
                if self._wanted.get(member.id) is not member:
                    return  # It has left meanwhile, and may even be back.
                self._catching_up.pop(member.id, None)
                if cause:
                    self._fail(member.id, cause)
                else:
                    self._ready.add(member.id)
                self._changed = True
                self._lock.notify_all()

        with self._lock:
            if self._closing or self._wanted.get(member.id) is not member:
                return
            log.info("query %s catches up with the others on %s", member.id, self._source.topic)
            self._catching_up[member.id] = CatchUp(self._ground, self._source, member, done)

    # Failures

    def _dismiss(self) -> None:
        """Who leaves a feed that can't finish its batch leaves it as it is."""
        leaving = [each for each in self._entries if each["id"] not in self._wanted]
        for each in leaving:
            self._let_go(each, self._here())
        if leaving:
            self._store([each for each in self._entries if each not in leaving])

    def _again(self, error: Exception, ran_s: float) -> bool:
        self._stop_after(error)
        cause = cause_of(error)
        wait_s = self._tries.failed(text_of(error), ran_s)
        now_ms = int(time.time() * 1000)
        if wait_s is None:
            if self._without_culprits(cause, text_of(error)):
                return True
            self._state = QueryState(State.FAILED, cause, now_ms)
            log.error("queries %s FAILED: %s", ", ".join(self._wanted), cause)
            return False
        self._state = QueryState(State.RESTARTING, cause, now_ms)
        log.warning("feed of %s failed, again in %.0f s: %s", self._source.topic, wait_s, cause)
        with self._lock:
            self._lock.wait_for(lambda: self._closing, wait_s)
        return True

    def _stop_after(self, error: Exception) -> None:
        if not isinstance(error, Failed):
            self._stop()

    def _without_culprits(self, cause: str, text: str) -> bool:
        """One bad member must not take the others with it. True if some were found and some stay.

        The unfinished batch, of which nobody has seen anything, runs again without them.
        """
        culprits = [each for each in self._entries if names_topic(text, each["topic"])]
        if not culprits and len(self._entries) > 1:
            culprits = [each for each in self._entries if not self._tries_well(each)]
        if not culprits or len(culprits) == len(self._entries):
            return False
        for each in culprits:
            self._let_go(each, self._here())
            self._fail(each["id"], cause)
        left = [each for each in self._entries if each not in culprits]
        with self._lock:
            write_json(self._home / "members.json", left)
            self._entries = left
        return True

    def _tries_well(self, entry: dict[str, Any]) -> bool:
        """The rows of the batch that failed, with this member alone, and nothing written."""
        try:
            self._ground.try_member(self._source, entry, self._checkpoint.position())
        except Exception:
            return False
        return True

    def _fail(self, member_id: str, cause: str) -> None:
        self._states[member_id] = QueryState(State.FAILED, cause, int(time.time() * 1000))
        log.error("query %s FAILED: %s", member_id, cause)


def names_topic(text: str, topic: str) -> bool:
    """Whether the sink's words in an error are about this topic."""
    name = re.escape(topic)
    refused = rf"(topic {name}|(?<![\w.-]){name}-\d+): [A-Z_]+"
    return re.search(rf"{refused}|there is no topic {name}(?![\w.-])", text) is not None


class CatchUp:
    """A member that is behind its feed runs alone, until only little is left."""

    def __init__(
        self, ground: Ground, source: Input, member: Member, done: Callable[[str], None]
    ) -> None:
        self.state = QueryState(State.RUNNING)
        self._ground = ground
        self._source = source
        self._member = member
        self._done = done
        self._stopping = threading.Event()
        self._tries = Tries()
        self._thread = threading.Thread(target=self._run, name=f"catch up {member.id}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        for _ in range(ROUNDS_MAX):
            began = time.monotonic()
            cause = self._one_round()
            if self._stopping.is_set():
                return
            if cause is not None:
                return self._done(cause)
            if time.monotonic() - began < CAUGHT_UP_S:
                break
        self._done("")

    def _one_round(self) -> str | None:
        """None, or why it can't be done at all."""
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                with self._ground.pace.counted():
                    self.round(self._ground, self._source, self._member, self._stopping.is_set)
                return None
            except Exception as error:
                wait_s = self._tries.failed(text_of(error), time.monotonic() - began)
                if wait_s is None:
                    return cause_of(error)
                self.state = QueryState(State.RESTARTING, cause_of(error))
                self._stopping.wait(wait_s)
        return None

    @staticmethod
    def round(
        ground: Ground, source: Input, member: Member, stopping: Callable[[], bool] | None = None
    ) -> None:
        """To the end of the topic as it is now."""
        spell = Spell(
            ground.begin_members(
                source,
                [member.entry({})],
                member.where(),
                member.alone.path,
                name=f"catch_up_{member.id}",
                available_now=True,
                properties=member.properties,
            )
        )
        if not spell.wait(stopping or (lambda: False)):
            spell.stop()
