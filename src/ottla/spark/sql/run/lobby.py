"""Where aggregates wait for others to share a Spark query with, and their places afterwards."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from pathlib import Path
from typing import Final

from ottla.spark.running.checkpoints import Checkpoint, read_json
from ottla.spark.running.kept import Kept
from ottla.spark.running.states import QueryState, State
from ottla.spark.sql.run.companies import ALONE, COMPANY, GATHER_S, Companion, Company
from ottla.spark.sql.run.spells import Ground
from ottla.spark.sql.run.together import Together, company, together

log = logging.getLogger("ottla.sql")

STARTING: Final = QueryState(State.STARTING)


class Seat:
    """The place of an aggregate: waiting, alone, or in a company."""

    def __init__(self, companion: Companion) -> None:
        self.companion = companion
        self._lock = threading.Lock()
        self._left = False
        self._kept: Kept | None = None
        self._company: Company | None = None

    def sit_alone(self) -> None:
        with self._lock:
            if not self._left:
                self._kept = self.companion.kept()
                self._kept.start()

    def sit_with(self, others: Company) -> None:
        with self._lock:
            if not self._left:
                self._company = others
                others.join(self.companion)
                return
        others.leave(self.companion.id, keep=True)

    @property
    def left(self) -> bool:
        return self._left

    def state(self) -> QueryState:
        if self._kept is not None:
            return self._kept.state()
        return STARTING if self._company is None else self._company.state(self.companion.id)

    def retry(self) -> bool:
        """False: it has to be started anew."""
        others = self._company
        if others is None or self.companion.id not in others.members:
            return False
        others.retry()
        return True

    def stop_soon(self) -> None:
        if self._kept is not None:
            self._kept.stop_soon()

    def stop(self, *, keep: bool) -> None:
        """`keep`: it will go on, from its own folder."""
        with self._lock:
            self._left = True
            kept, others = self._kept, self._company
        if kept is not None:
            kept.stop()
        if others is not None:
            others.leave(self.companion.id, keep=keep)

    def close(self) -> None:
        """With the process: a company stays what it is."""
        with self._lock:
            self._left = True
        if self._kept is not None:
            self._kept.stop()


class Companies:
    """All companies of a state directory, and the lobbies before them."""

    def __init__(self, folder: Path, ground: Ground) -> None:
        self._folder = folder
        self._ground = ground
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._waiting: dict[str, list[Seat]] = {}
        self._threads: list[threading.Thread] = []
        self._companies = [Company(each, ground) for each in _stored(folder)]

    def take(self, companion: Companion) -> Seat:
        """In its company of former days; with newcomers; or alone, where it has gone alone."""
        seat = Seat(companion)
        others = self.of(companion.id)
        if others is not None:
            _forget_alone(companion.home)
            seat.sit_with(others)
        elif Checkpoint(companion.home / "checkpoint").exists:
            seat.sit_alone()
        else:
            self._wait(seat)
        return seat

    def of(self, member_id: str) -> Company | None:
        with self._lock:
            self._companies = [each for each in self._companies if each.members]
            return next((each for each in self._companies if member_id in each.members), None)

    def dismiss(self, member_id: str, *, keep: bool) -> None:
        """One that does not come back as a member: it has been ended, or paused, meanwhile."""
        others = self.of(member_id)
        if others is not None:
            others.leave(member_id, keep=keep)

    def close_soon(self) -> None:
        self._closing.set()
        for each in self._companies:
            each.close_soon()

    def close(self) -> None:
        self.close_soon()
        for thread in self._threads:
            thread.join()
        for each in self._companies:
            each.close()

    # The lobby

    def _wait(self, seat: Seat) -> None:
        key = company(seat.companion.candidate.stage)
        with self._lock:
            if key in self._waiting:
                self._waiting[key].append(seat)
                return
            self._waiting[key] = [seat]
            thread = threading.Thread(target=self._gather, args=(key,), name="lobby", daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def _gather(self, key: str) -> None:
        """Until nobody comes any more."""
        seen = 1
        while True:
            self._wait_a_moment()
            with self._lock:
                seats = self._waiting[key]
                if len(seats) == seen or self._closing.is_set():
                    del self._waiting[key]
                    break
                seen = len(seats)
        if self._closing.is_set():
            return
        try:
            self._seat([each for each in seats if not each.left])
        except Exception:
            log.exception("queries that could share a Spark query go alone")
            for each in seats:
                each.sit_alone()

    def _wait_a_moment(self) -> None:
        self._closing.wait(GATHER_S)

    def _seat(self, seats: list[Seat]) -> None:
        by_id = {each.companion.id: each for each in seats}
        candidates = [each.companion.candidate for each in seats]
        for plan in together(candidates) if candidates else ():
            ids = [each.id for each in plan.sharers]
            if len(ids) == 1:
                by_id[ids[0]].sit_alone()
                continue
            others = self._founded(plan)
            log.info("queries %s share a Spark query", ", ".join(ids))
            for each in ids:
                by_id[each].sit_with(others)

    def _founded(self, plan: Together) -> Company:
        home = self._folder / uuid.uuid4().hex[:12]
        Company.found(home, plan)
        made = Company(home, self._ground)
        with self._lock:
            self._companies.append(made)
        return made


def alone_plan(home: Path) -> Together | None:
    """Of one that has left a company, and goes on with its state."""
    stored = read_json(home / ALONE)
    return Together.from_json(stored) if stored else None


def _forget_alone(home: Path) -> None:
    """A process that ended while it left: it had not left yet."""
    (home / ALONE).unlink(missing_ok=True)
    shutil.rmtree(home / "checkpoint", ignore_errors=True)


def _stored(folder: Path) -> list[Path]:
    homes = sorted(folder.iterdir()) if folder.is_dir() else []
    return [each for each in homes if (each / COMPANY).exists()]
