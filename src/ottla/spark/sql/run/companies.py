"""The life of aggregates that share a Spark query: they begin together, and leave one by one.

state_dir/companies/<name>/company.json   what is computed (`together.Together`), and for whom
                          checkpoint/     of the Spark query
state_dir/queries/<query>/<step>/alone.json, checkpoint/   of a member that has left, and goes on

The rules:

1. A newcomer waits for a moment whether others come that fit (`lobby.py`). Then the company is
   closed: the columns of Spark's state are fixed.
2. What `company.json` says is what counts. A process that starts again writes for all who are in
   it, back or not: who was ended or paused meanwhile is taken out by whoever knows of it.
3. A member that leaves for good is not written any more. One that is paused, or that can't be
   written, takes a copy of the checkpoint along, made at a border between two batches, and goes on
   alone from there: with the state of all, and under a name of its own for the sink.
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

from ottla.spark.running.causes import cause_of, text_of
from ottla.spark.running.checkpoints import Checkpoint, read_json, write_json
from ottla.spark.running.kept import (
    ENDED,
    STOP_S_MAX,
    Failed,
    Kept,
    Spell,
    progress_of,
    stop_quietly,
)
from ottla.spark.running.states import QueryState, State, Tries
from ottla.spark.sql.plan.stages import Aggregate
from ottla.spark.sql.run.feeds import names_topic
from ottla.spark.sql.run.spells import Ground
from ottla.spark.sql.run.together import Candidate, Together

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.sql")

GATHER_S: Final = 0.5
"""Statements of one request come one after the other, each after a few round trips."""
RETURN_S: Final = 3.0
APPLIED_S_MAX: Final = 60.0
COMPANY: Final = "company.json"
ALONE: Final = "alone.json"


@dataclass(frozen=True, slots=True)
class Companion:
    """An aggregate of a query that may share. Its id is the place of its own folder, `home`."""

    candidate: Candidate
    home: Path
    properties: Mapping[str, str]
    kept: Callable[[], Kept]
    """What keeps it running where nobody shares with it."""

    @property
    def id(self) -> str:
        return self.candidate.id


class Company:
    """One Spark query for several aggregates, on a thread of its own."""

    def __init__(self, home: Path, ground: Ground) -> None:
        """`home` has its plan: `found` has made it, in this process or in a former one."""
        self._home = home
        self._ground = ground
        stored = read_json(home / COMPANY) or {}
        self._plan = Together.from_json(stored["plan"])
        self._outputs: list[str] = stored["outputs"]
        self._lock = threading.Condition()
        self._present: dict[str, Companion] = {}
        self._operator: Aggregate | None = None
        self._leaving: dict[str, bool] = {}
        """Who wants to go, and whether to go on elsewhere."""
        self._failed: dict[str, QueryState] = {}
        self._closing = False
        self._retry = False
        self._spell: Spell | None = None
        self._tries = Tries()
        self._state = QueryState(State.STARTING)
        self._thread = threading.Thread(target=self._keep, name=f"company {home.name}", daemon=True)

    @staticmethod
    def found(home: Path, plan: Together) -> None:
        members = [each.id for each in plan.sharers]
        write_json(home / COMPANY, {"plan": plan.to_json(), "outputs": members})

    # What others call

    @property
    def members(self) -> list[str]:
        """Those that it writes for."""
        return list(self._outputs)

    def join(self, companion: Companion) -> None:
        with self._lock:
            assert companion.id in self._outputs
            self._present[companion.id] = companion
            self._operator = companion.candidate.operator
            self._lock.notify_all()
            if self._thread.ident is None:
                self._thread.start()

    def leave(self, member_id: str, *, keep: bool) -> None:
        """Returns when nothing is written for it any more. `keep`: it may go on elsewhere."""
        with self._lock:
            self._present.pop(member_id, None)
            self._failed.pop(member_id, None)
            if member_id not in self._outputs:
                return
            if self._thread.is_alive():
                self._leaving[member_id] = keep
                self._lock.notify_all()
                self._lock.wait_for(lambda: member_id not in self._leaving, APPLIED_S_MAX)
                return
        self._let_go({member_id: keep})

    def retry(self) -> None:
        """At once, where the next try is not due yet, or none is."""
        with self._lock:
            self._retry = True
            self._lock.notify_all()

    def close_soon(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()

    def close(self) -> None:
        """Stops, and keeps everything: the next process goes on from here."""
        self.close_soon()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            log.warning("the company of %s has not stopped", ", ".join(self.members))

    def state(self, member_id: str) -> QueryState:
        own = self._failed.get(member_id)
        if own is not None:
            return own
        shared = self._state
        return QueryState(
            shared.state,
            shared.cause,
            shared.failed_ms,
            self._tries.restarts,
            **progress_of(self._spell),
        )

    # The company's own thread

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self._home / "checkpoint")

    def _urgent(self) -> bool:
        return bool(self._leaving) or self._closing

    def _keep(self) -> None:
        """Whatever comes: a thread that is gone has said why."""
        try:
            self._work()
        except Exception as error:
            log.exception("the company of %s is not kept any more", ", ".join(self.members))
            self._state = QueryState(State.FAILED, cause_of(error), int(time.time() * 1000))
        self._stop()
        with self._lock:
            self._leaving.clear()
            self._lock.notify_all()

    def _work(self) -> None:
        self._return()
        while not self._closing:
            self._settle()
            if not self._outputs:
                break
            self._pause()
            if self._urgent():
                continue
            began = time.monotonic()
            try:
                self._run()
            except Exception as error:
                self._after(error, time.monotonic() - began)

    def _return(self) -> None:
        """A company of a former process waits for its members, to know their properties; then it
        goes on for all of them, back or not."""
        with self._lock:
            self._lock.wait_for(lambda: self._urgent() or self._all_here(), RETURN_S)

    def _all_here(self) -> bool:
        return all(each in self._present for each in self._outputs)

    def _pause(self) -> None:
        """Several that leave at once are one change."""
        with self._lock:
            self._lock.wait_for(self._urgent, GATHER_S)

    def _run(self) -> None:
        """Until something changes."""
        with self._ground.pace.counted():
            self._spell = Spell(self._begin(available_now=False))
            self._state = QueryState(State.RUNNING)
            if self._spell.wait(self._urgent):
                raise Failed(ENDED)
            self._stop()

    def _begin(self, *, available_now: bool) -> StreamingQuery:
        assert self._operator is not None
        properties: dict[str, str] = {}
        for each in self._present.values():
            properties.update(each.properties)
        return self._ground.begin_together(
            self._operator,
            self._plan,
            self._outputs,
            self._checkpoint.path,
            name=f"company_{self._home.name}",
            available_now=available_now,
            properties=properties,
        )

    def _stop(self) -> None:
        if self._spell is not None:
            stop_quietly(self._spell, f"company {self._home.name}")
            self._spell = None

    # Who leaves

    def _settle(self) -> None:
        with self._lock:
            leaving = dict(self._leaving)
        if not leaving:
            return
        if any(leaving.values()):
            self._finish_batch()
        self._let_go(leaving)
        with self._lock:
            for each in leaving:
                self._leaving.pop(each, None)
            self._lock.notify_all()

    def _finish_batch(self) -> None:
        """To a border, with all who were there when it began. If that can't be done: a table's row
        that is written twice is the same row."""
        if not self._checkpoint.exists or self._checkpoint.at_border:
            return
        try:
            spell = Spell(self._begin(available_now=True))
            if not spell.wait(lambda: self._closing):
                stop_quietly(spell, f"company {self._home.name}")
        except Exception as error:
            log.warning("company %s: a batch stays unfinished: %s", self._home.name, error)

    def _let_go(self, gone: Mapping[str, bool]) -> None:
        """What `company.json` says is done last: until then they are members."""
        for each, keep in gone.items():
            home = self._home.parent.parent / "queries" / each
            if keep and self._checkpoint.exists:
                copy_checkpoint(self._checkpoint.path, home / "checkpoint")
                write_json(home / ALONE, self._plan.to_json())
        left = [each for each in self._outputs if each not in gone]
        if left:
            write_json(self._home / COMPANY, {"plan": self._plan.to_json(), "outputs": left})
        else:
            shutil.rmtree(self._home, ignore_errors=True)
        self._outputs = left

    # Failures

    def _after(self, error: Exception, ran_s: float) -> None:
        if not isinstance(error, Failed):
            self._stop()
        cause, now_ms = cause_of(error), int(time.time() * 1000)
        wait_s = self._tries.failed(text_of(error), ran_s)
        if wait_s is None and self._without_culprits(text_of(error), cause, now_ms):
            return
        told = ", ".join(self.members)
        if wait_s is None:
            self._state = QueryState(State.FAILED, cause, now_ms)
            log.error("queries %s FAILED: %s", told, cause)
        else:
            self._state = QueryState(State.RESTARTING, cause, now_ms)
            log.warning("queries %s failed, again in %.0f s: %s", told, wait_s, cause)
        with self._lock:
            self._lock.wait_for(lambda: self._urgent() or self._retry, wait_s)
            self._retry = False

    def _without_culprits(self, text: str, cause: str, now_ms: int) -> bool:
        """Those that the sink can't write any more. Nothing of the batch is written; they take the
        state of before it along, for the day when they are resumed."""
        topics = {each.id: each.topic for each in self._plan.sharers}
        culprits = [each for each in self._outputs if names_topic(text, topics[each])]
        if not culprits or len(culprits) == len(self._outputs):
            return False
        self._let_go(dict.fromkeys(culprits, True))
        for each in culprits:
            self._failed[each] = QueryState(State.FAILED, cause, now_ms)
            self._present.pop(each, None)
            log.error("query %s FAILED: %s", each, cause)
        return True


def copy_checkpoint(source: Path, target: Path) -> None:
    """Another query's from here on: by a new id, under which the sink knows it. A batch that has
    been begun and is not done is none of its own."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name("checkpoint.new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    done = Checkpoint(draft).last_done
    for each in (draft / "offsets").iterdir():
        name = each.name.strip(".").removesuffix(".crc")
        if name.isdigit() and int(name) > done:
            each.unlink()
    for each in draft.glob("*metadata.crc"):
        each.unlink()
    (draft / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    draft.rename(target)
