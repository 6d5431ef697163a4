"""Shared scans, with a small engine instead of Spark that can stop anywhere in a batch.

Members join, pause, leave or crash at any time: each has every row since its start exactly once.
The engine gives the guarantees of Spark and our sink: offsets are written before a batch, a batch's
output is written as a whole and once, and commits are written after it.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.queries import query_run
from ottla.queries.failures import QueryFailure
from ottla.queries.lifecycle import Recovery
from ottla.queries.query_run import QueryRun
from ottla.queries.states import QueryStatus
from ottla.queries.supervisor import Supervisor
from ottla.rows.schema import FormatInfo, Layout, LogicalSchema
from ottla.spark.checkpoints import Position, QueryCheckpoint
from ottla.sql.plan.stages import StageInput
from ottla.sql.run import shared_scan
from ottla.sql.run.query_runtime import QueryRuntime
from ottla.sql.run.scan_member import CatchUp, ScanMember
from ottla.sql.run.shared_scan import SharedScan, forget_member
from ottla.sql.syntax.statements import SourceKind

TOPIC = "orders"
LAYOUT = Layout(LogicalSchema(()), FormatInfo("NONE"), FormatInfo("NONE"))
ORDERS = StageInput("ORDERS", TOPIC, LAYOUT, SourceKind.STREAM)
BATCH_ROWS = 7


class Engine:
    """The topic, the sink, and the queries between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows = {"0": 0, "1": 0}
        self.out: dict[str, list[tuple[str, int]]] = {}
        self.decided: set[tuple[str, int]] = set()
        self.lock = threading.Lock()
        self.broken: set[str] = set()
        self.away = 0
        """So many queries of one member fail, for a reason that passes."""

    def produce(self, count: int) -> None:
        with self.lock:
            for _ in range(count):
                self.rows[self.random.choice("01")] += 1

    def end(self) -> Position:
        with self.lock:
            return {TOPIC: dict(self.rows)}

    def try_member(self, _: object, entry: dict[str, Any], start: Position) -> None:
        if entry["id"] in self.broken:
            raise RuntimeError("broken")

    def begin_members(
        self,
        source: object,
        members: list[dict[str, Any]],
        start: Position | None,
        checkpoint: Path,
        *,
        name: str,
        available_now: bool,
        properties: object,
    ) -> Query:
        if available_now and len(members) == 1 and self.away:
            self.away -= 1
            raise ConnectionRefusedError("Connection refused")
        return Query(self, json.loads(json.dumps(members)), start or {}, checkpoint, available_now)


class Query:
    """A streaming query: batches, until it is stopped, or at the end of the topic."""

    lastProgress = None  # noqa: N815
    name = "q"

    def __init__(
        self,
        engine: Engine,
        members: list[dict[str, Any]],
        start: Position,
        path: Path,
        available_now: bool,
    ) -> None:
        self._engine, self._members, self._path = engine, members, path
        self._start, self._available_now = start, available_now
        self._error: Exception | None = None
        self._stopped = False
        for folder_name in ("offsets", "commits"):
            (path / folder_name).mkdir(parents=True, exist_ok=True)
        if not (path / "metadata").exists():
            (path / "metadata").write_text(str(engine.random.random()))
        self._id = (path / "metadata").read_text()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self._engine.random.random() < 0.5}

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self._stopped = True
        self._thread.join()

    def _run(self) -> None:
        target = self._engine.end()
        try:
            while not self._stopped:
                worked = self._batch(target)
                if not worked and self._available_now:
                    return
                time.sleep(0.001)
        except Exception as error:
            self._error = error

    def _batch(self, target: Position) -> bool:
        """Runs one batch; False if there was nothing to do. It may stop anywhere."""
        checkpoint = QueryCheckpoint(self._path)
        begin = {**self._start.get(TOPIC, {}), **checkpoint.position().get(TOPIC, {})}
        done = sorted(int(commit.name) for commit in (self._path / "commits").iterdir())
        number = done[-1] + 1 if done else 0
        planned = self._path / "offsets" / str(number)
        if planned.exists():
            end = json.loads(planned.read_text().splitlines()[2])[TOPIC]
        else:
            limit = target if self._available_now else self._engine.end()
            end = {p: min(o, begin.get(p, 0) + BATCH_ROWS) for p, o in limit[TOPIC].items()}
            end = {p: max(o, begin.get(p, 0)) for p, o in end.items()}
            if end == {p: begin.get(p, 0) for p in end}:
                return False
            planned.write_text(f"v1\n{{}}\n{json.dumps({TOPIC: end})}")
        self._pause()
        if self._stopped:
            return True
        self._write(number, begin, end)
        self._pause()
        if not self._stopped:
            (self._path / "commits" / str(number)).write_text("v1\n{}")
        return True

    def _pause(self) -> None:
        if self._engine.random.random() < 0.3:
            time.sleep(0.003)

    def _write(self, number: int, begin: dict[str, int], end: dict[str, int]) -> None:
        with self._engine.lock:
            if (self._id, number) in self._engine.decided:
                return
            bad = [member["id"] for member in self._members if member["id"] in self._engine.broken]
            if bad:
                raise RuntimeError(f"AnalysisException: {bad} can't be computed")
            self._engine.decided.add((self._id, number))
            for member in self._members:
                for partition, last in end.items():
                    first = max(begin.get(partition, 0), member["from"].get(partition, 0))
                    rows = self._engine.out.setdefault(member["id"], [])
                    rows.extend((partition, offset) for offset in range(first, last))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_scan, "GATHER_S", 0.002)
    monkeypatch.setattr(shared_scan, "RETURN_S", 0.05)
    monkeypatch.setattr(shared_scan, "NEAR_RECORDS", 10)
    monkeypatch.setattr(query_run, "WATCH_S", 0.002)
    monkeypatch.setattr(QueryRun, "idle_wait_s_max", 0.005)


class ScanHistory:
    """Members of one scan, and the expected rows of each."""

    def __init__(self, engine: Engine, state_dir: Path) -> None:
        self.engine, self.dir = engine, state_dir
        self.began: dict[str, Position] = {}
        self.running: set[str] = set()
        self.supervisor = Supervisor(watch_s=0.002, back_off_first_ms=10)
        self.scan = self._opened()

    def _opened(self) -> SharedScan:
        runtime = cast(QueryRuntime, self.engine)
        return SharedScan(self.dir / "shared" / "f", ORDERS, runtime, self.supervisor)

    def close(self) -> None:
        self.scan.close()
        self.supervisor.close()

    def start(self, name: str) -> None:
        home = self.dir / "queries" / name
        home.mkdir(parents=True, exist_ok=True)
        if name not in self.began:
            earliest: Position = {TOPIC: {"0": 0, "1": 0}}
            begin = earliest if self.engine.random.random() < 0.5 else self.engine.end()
            self.began[name] = begin
        self.scan.join(ScanMember(name, name, "{}", "text", home, self.began[name]))
        self.running.add(name)

    def leave(self, name: str, *, keep: bool = True) -> None:
        self.scan.leave(name, keep=keep)
        self.running.discard(name)

    def restart(self) -> None:
        """As after a crash: only the folders are left."""
        self.scan.close()
        self.scan = self._opened()
        for name in sorted(self.running):
            self.start(name)

    def expected(self, name: str) -> list[tuple[str, int]]:
        begin = self.began[name][TOPIC]
        return [(p, o) for p, end in sorted(self.engine.rows.items()) for o in range(begin[p], end)]

    def got(self, name: str) -> list[tuple[str, int]]:
        return sorted(self.engine.out.get(name, []))


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[list[ScanHistory]]:
    made: list[ScanHistory] = []
    yield made
    for result in made:
        result.close()


@pytest.mark.parametrize("seed", range(6))
def test_every_member_has_every_row_once(
    seed: int, tmp_path: Path, lives: list[ScanHistory]
) -> None:
    engine = Engine(seed)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    for _ in range(40):
        engine.produce(engine.random.randrange(30))
        name = f"q{engine.random.randrange(5)}"
        step = engine.random.random()
        if step < 0.15:
            life.restart()
        elif name in life.running and step < 0.6:
            life.leave(name)
        elif name not in life.running:
            life.start(name)
        time.sleep(engine.random.random() * 0.02)
    for name in life.began:
        if name not in life.running:
            life.start(name)
    deadline = time.monotonic() + 60
    while any(life.got(name) != life.expected(name) for name in life.began):
        assert time.monotonic() < deadline, {
            name: (len(life.got(name)), len(life.expected(name)), life.scan.state(name))
            for name in life.began
        }
        time.sleep(0.01)
    _until(lambda: all(life.scan.state(name).state is QueryStatus.RUNNING for name in life.began))


def test_a_member_that_cannot_be_computed_fails_alone(
    tmp_path: Path, lives: list[ScanHistory]
) -> None:
    engine = Engine(1)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    for name in ("good", "bad"):
        life.start(name)
    engine.produce(20)
    _until(lambda: life.got("bad") == life.expected("bad"))
    engine.broken.add("bad")
    engine.produce(20)
    _until(lambda: life.got("good") == life.expected("good"))
    assert life.scan.state("bad").state is QueryStatus.FAILED
    assert "AnalysisException" in life.scan.state("bad").cause
    assert life.scan.state("good").state is QueryStatus.RUNNING
    # Once repaired, it resumes.
    engine.broken.clear()
    life.leave("bad")
    life.start("bad")
    _until(lambda: life.got("bad") == life.expected("bad"))


def test_a_member_that_joins_while_others_change_catches_up_once(
    tmp_path: Path, lives: list[ScanHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of the scan may decide about a new member while `join` does: only one of them may
    run it, because two runs of one checkpoint write its rows twice."""
    engine = Engine(5)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    life.start("first")
    engine.produce(100)
    _until(lambda: life.got("first") == life.expected("first"))
    catch_up, other_has_decided = SharedScan._catch_up, threading.Event()
    begun: list[str] = []

    def slow_catch_up(scan: SharedScan, member: ScanMember) -> None:
        if threading.current_thread() is threading.main_thread():
            scan._query.restart()
            other_has_decided.wait(1)
            catch_up(scan, member)
        else:
            catch_up(scan, member)
            other_has_decided.set()

    def begin(*arguments: Any) -> CatchUp:
        begun.append(arguments[3].id)
        return CatchUp(*arguments)

    monkeypatch.setattr(SharedScan, "_catch_up", slow_catch_up)
    monkeypatch.setattr(shared_scan, "CatchUp", begin)
    life.began["second"] = {TOPIC: {"0": 0, "1": 0}}
    life.start("second")
    _until(lambda: life.got("second") == life.expected("second"))
    assert begun == ["second"]


def test_a_member_that_failed_to_catch_up_joins_later(
    tmp_path: Path, lives: list[ScanHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(3)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    life.start("first")
    engine.produce(9)
    _until(lambda: life.got("first") == life.expected("first"))
    engine.away = 3
    life.began["late"] = {TOPIC: {"0": 0, "1": 0}}
    life.start("late")
    _until(lambda: life.got("late") == life.expected("late"))
    assert engine.away == 0
    _until(lambda: life.scan.state("late").state is QueryStatus.RUNNING)


def test_a_scan_that_can_not_find_the_culprit_keeps_the_first_cause(
    tmp_path: Path, lives: list[ScanHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover(_: SharedScan, failure: QueryFailure) -> Recovery:
        raise OSError("No space left on device")

    monkeypatch.setattr(SharedScan, "recover", recover)
    engine = Engine(4)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    life.start("q")
    engine.produce(9)
    _until(lambda: life.got("q") == life.expected("q"))
    engine.broken.add("q")
    engine.produce(9)
    _until(lambda: life.scan.state("q").state is QueryStatus.FAILED)
    assert "AnalysisException" in life.scan.state("q").cause
    # A member that leaves an unfinished batch does not change it.
    life.leave("q")
    assert not (tmp_path / "shared" / "f").exists()


def test_nothing_is_written_for_a_member_after_it_has_left(
    tmp_path: Path, lives: list[ScanHistory]
) -> None:
    for seed in range(10):
        engine = Engine(seed)
        life = ScanHistory(engine, tmp_path / str(seed))
        lives.append(life)
        for name in ("stays", "goes"):
            life.start(name)
        engine.produce(40)
        if seed % 2:
            _until(lambda life=life: life.got("goes") != [])  # type: ignore[misc]
        life.leave("goes", keep=False)
        had = life.got("goes")
        engine.produce(40)
        _until(lambda life=life: life.got("stays") == life.expected("stays"))  # type: ignore[misc]
        assert life.got("goes") == had
        life.close()


def test_the_last_member_removes_the_folder_of_its_scan(
    tmp_path: Path, lives: list[ScanHistory]
) -> None:
    engine = Engine(7)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    folder = tmp_path / "shared" / "f"
    for keep in (True, False):
        for name in ("a", "b"):
            life.start(name)
        engine.produce(20)
        _until(
            lambda: all(life.got(member_id) == life.expected(member_id) for member_id in ("a", "b"))
        )
        life.leave("a", keep=keep)
        assert (folder / "members.json").exists()
        life.leave("b", keep=keep)
        assert not folder.exists()


def test_members_that_ended_while_stopped_leave_no_folder(
    tmp_path: Path, lives: list[ScanHistory]
) -> None:
    engine = Engine(8)
    life = ScanHistory(engine, tmp_path)
    lives.append(life)
    for name in ("a", "b"):
        life.start(name)
    engine.produce(20)
    _until(lambda: all(life.got(member_id) == life.expected(member_id) for member_id in ("a", "b")))
    life.close()
    folder = tmp_path / "shared" / "f"
    forget_member(folder, "a")
    assert [member["id"] for member in json.loads((folder / "members.json").read_text())] == ["b"]
    forget_member(folder, "b")
    assert not folder.exists()


def _until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
