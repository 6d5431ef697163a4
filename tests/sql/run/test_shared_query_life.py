"""Shared queries, with the small engine of the shared scans' tests instead of Spark.

Members join, pause, leave or crash at any time: each has every row since its start exactly once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from test_fused_plan import BY_ID, BY_ITEM, SUM_BY_ITEM, candidate
from test_shared_scan import TOPIC, Engine, Query

from ottla.queries import query_run
from ottla.queries.query_run import QueryRun
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryStatus
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import Position, QueryCheckpoint
from ottla.sql.run import admission, shared_query
from ottla.sql.run.admission import Admission, Placement, alone_plan
from ottla.sql.run.fused_plan import Candidate, FusedPlan, fused
from ottla.sql.run.query_runtime import QueryRuntime
from ottla.sql.run.shared_query import SharedMember, SharedQuery

SELECTS = (BY_ITEM, SUM_BY_ITEM, BY_ID)
WAIT_S = 240.0


class Begins(Engine):
    """The same, for aggregates; topics in `gone` can't be written."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.gone: set[str] = set()
        self.begun: list[tuple[str, ...]] = []

    def begin_fused(
        self,
        operator: object,
        plan: FusedPlan,
        outputs: Sequence[str],
        checkpoint: Path,
        *,
        name: str,
        properties: object,
        available_now: bool = False,
    ) -> Query:
        for output in outputs:
            if output in self.gone:
                raise RuntimeError(f"there is no topic {output.partition('/')[0]}")
        sets = {member.id: plan.grouping_sets[member.grouping] for member in plan.members}
        members = [{"id": output, "from": dict(sets[output].begins)} for output in outputs]
        self.begun.append(tuple(outputs))
        return Query(self, members, plan.start, checkpoint, available_now)


class Lives:
    """A server with its state directory, which can end and start again."""

    def __init__(self, engine: Begins, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.supervisor = Supervisor(watch_s=0.002, back_off_first_ms=2)
        self.admission = self._admission()
        self.placements: dict[str, Placement] = {}
        self.starts: dict[str, Position] = {}

    def _admission(self) -> Admission:
        runtime = cast(QueryRuntime, self.engine)
        return Admission(self.folder / "companies", runtime, self.supervisor)

    def found(self, names: Sequence[str]) -> None:
        """A shared query of all members, to which they return."""
        self.engine.produce(3)
        made = [self.candidate(name, number) for number, name in enumerate(names)]
        (plan,) = fused(made)
        SharedQuery.found(self.folder / "companies" / "one", plan)
        self.admission = self._admission()

    def candidate(self, name: str, number: int) -> Candidate:
        member_id = f"{name}/Aggregate"
        start = self.starts.setdefault(member_id, self.engine.end())
        self.engine.produce(2)
        made = candidate(SELECTS[number % len(SELECTS)], member_id)
        return Candidate(member_id, made.stage, name, start)

    def take(self, name: str, number: int) -> None:
        made = self.candidate(name, number)
        member_id, start = made.id, made.start
        home = self.folder / "queries" / member_id
        home.mkdir(parents=True, exist_ok=True)

        def begin() -> Any:
            plan = alone_plan(home)
            checkpoint = home / "checkpoint"
            if plan is not None:
                return self.engine.begin_fused(
                    None, plan, [member_id], checkpoint, name="", properties={}
                )
            entry = {"id": member_id, "from": {}}
            return Query(self.engine, [entry], start, checkpoint, available_now=False)

        member = SharedMember(made, home, {}, lambda: QuerySpecification(name, begin))
        self.placements[name] = self.admission.take(member)

    def stop(self, name: str, *, keep: bool = True) -> None:
        self.placements.pop(name).stop(keep=keep)

    def restart(self) -> None:
        self.admission.close_soon()
        for placement in self.placements.values():
            placement.stop_soon()
        self.admission.close()
        for placement in self.placements.values():
            placement.close()
        self.admission = self._admission()

    def wanted(self, member_id: str) -> set[tuple[str, int]]:
        begins = self.starts[member_id][TOPIC]
        return {(p, o) for p, end in self.engine.rows.items() for o in range(begins[p], end)}

    def has_all(self, name: str) -> bool:
        member_id = f"{name}/Aggregate"
        return set(self.engine.out.get(member_id, [])) == self.wanted(member_id)


def eventually(true: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_query, "GATHER_S", 0.01)
    monkeypatch.setattr(shared_query, "RETURN_S", 0.05)
    monkeypatch.setattr(admission, "GATHER_S", 0.05)
    monkeypatch.setattr(query_run, "WATCH_S", 0.002)
    monkeypatch.setattr(QueryRun, "idle_wait_s_max", 0.005)


@pytest.mark.parametrize("seed", range(12))
def test_every_member_gets_every_row_once_whatever_happens(seed: int, tmp_path: Path) -> None:
    engine = Begins(seed)
    lives = Lives(engine, tmp_path)
    names = [f"Q{n}" for n in range(5)]
    if seed % 3:  # otherwise they meet at admission
        lives.found(names)
    for number, name in enumerate(names):
        lives.take(name, number)
    if seed % 3:
        for query_id in names:
            eventually(lambda id_=query_id: lives.has_all(id_))  # type: ignore[misc]
        assert len(engine.begun[0]) == len(names)
    paused: set[str] = set()
    ended: set[str] = set()
    for _ in range(20):
        engine.produce(engine.random.randrange(150))
        time.sleep(engine.random.random() * 0.03)
        name = engine.random.choice(names)
        what = engine.random.choice(("pause", "pause", "resume", "restart", "end"))
        if what == "pause" and name in lives.placements:
            lives.stop(name)
            paused.add(name)
        elif what == "resume" and name in paused:
            paused.discard(name)
            lives.take(name, names.index(name))
        elif what == "end" and name in lives.placements and not ended:
            lives.stop(name, keep=False)
            ended.add(name)
        elif what == "restart":
            lives.restart()
            for placement in list(lives.placements):
                lives.take(placement, names.index(placement))
    for query_id in paused:
        lives.take(query_id, names.index(query_id))
    try:
        for placement in lives.placements:
            eventually(lambda id_=placement: lives.has_all(id_), lambda: engine.out)  # type: ignore[misc]
        for member_id, rows in engine.out.items():
            assert len(rows) == len(set(rows)), f"{member_id} has rows twice"
    finally:
        lives.restart()


class SupervisorStub:
    """The test itself calls `start`, in the order that it wants to see."""

    restarts = 0

    def supervise(self, specification: QuerySpecification) -> SupervisorStub:
        return self

    def begin(self) -> None:
        pass

    def restart(self) -> None:
        self.restarts += 1


def test_a_member_does_not_leave_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """A start that is cancelled while it finishes the batch leaves the member to the next start.
    A copy of the checkpoint from the middle would write the batch again, as another query."""
    engine = Begins(1)
    lives = Lives(engine, tmp_path)
    lives.found(("A", "B"))
    home = tmp_path / "companies" / "one"
    stub = SupervisorStub()
    shared = SharedQuery(home, cast(QueryRuntime, engine), cast(Supervisor, stub))
    candidate_a = lives.candidate("A", 0)
    shared.join(SharedMember(candidate_a, tmp_path, {}, lambda: QuerySpecification("A", list)))
    checkpoint = home / "checkpoint"
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text("a query")
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(engine.end())}")

    leaving = threading.Thread(target=shared.leave, args=("A/Aggregate",), kwargs={"keep": True})
    leaving.start()
    eventually(lambda: stub.restarts == 1)
    calls = iter([False, False])  # in `_return` and in `_settle`; then it is cancelled
    assert shared.start(lambda: next(calls, True)) is None
    assert leaving.is_alive()
    assert shared.members == ["A/Aggregate", "B/Aggregate"]

    run = shared.start(lambda: False)
    assert run is not None
    run.stop()
    leaving.join()
    assert shared.members == ["B/Aggregate"]
    alone = QueryCheckpoint(tmp_path / "queries" / "A" / "Aggregate" / "checkpoint")
    assert alone.at_border
    assert alone.last_done >= 0


def test_a_member_that_cannot_be_written_leaves_and_the_others_continue(tmp_path: Path) -> None:
    engine = Begins(1)
    lives = Lives(engine, tmp_path)
    lives.found(("A", "B", "C"))
    for number, name in enumerate(("A", "B", "C")):
        lives.take(name, number)
    engine.produce(30)
    for name in ("A", "B", "C"):
        eventually(lambda name=name: lives.has_all(name))  # type: ignore[misc]
    engine.gone.add("B/Aggregate")
    lives.restart()
    for number, name in enumerate(("A", "B", "C")):
        lives.take(name, number)
    engine.produce(30)
    for name in ("A", "C"):
        eventually(lambda name=name: lives.has_all(name))  # type: ignore[misc]
    state = lives.placements["B"].state()
    assert (state.state, state.cause) == (QueryStatus.FAILED, "there is no topic B")
    assert not lives.placements["B"].retry(), "it no longer belongs to the shared query"
    engine.gone.clear()
    lives.stop("B")
    lives.take("B", 1)
    eventually(lambda: lives.has_all("B"))
    # Terminated while no server ran: the others do not wait for it.
    lives.restart()
    lives.admission.dismiss("A/Aggregate", keep=False)
    for number, name in enumerate(("C", "B")):
        lives.take(name, 2 - number)
    engine.produce(5)
    for name in ("B", "C"):
        eventually(lambda name=name: lives.has_all(name))  # type: ignore[misc]
    for name in ("B", "C"):
        lives.stop(name, keep=False)
    assert list((tmp_path / "companies").iterdir()) == []
    rows = engine.out["B/Aggregate"]
    assert len(rows) == len(set(rows))
