"""The workers of a cluster, and which of them runs what.

A group of the classic protocol, as Kafka Connect's own: its coordinator knows who lives, and names
a leader, which assigns. One thread joins, hears what is assigned, and sends heartbeats. Whoever is
not heard of for `session.timeout.ms` is out, and the others get its connectors in the next round; a
worker that finds itself out (it was stopped for a while, or cut off) stops all it runs first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.group_member import GroupMember, Joined
from ottla.connect.herder.assignment import Assignment, Member, assign
from ottla.errors import ErrorCode, KafkaError

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = (
    "ottla-1"  # Kafka's workers, which can't run what we run, are refused by the group
)
RETRY_S: Final = 0.5
CLOSE_S_MAX: Final = 10.0

log = logging.getLogger("ottla.connect")


class Tells(Protocol):
    """What the membership asks of its herder, and tells it, all on its own thread."""

    def owned(self) -> Collection[str]:
        """The connectors that run here, or are being stopped."""

    def connectors(self) -> tuple[Collection[str], int]:
        """All that are to run somewhere, and how far the config topic was read for this."""

    def assigned(self, assignment: Assignment, generation: int) -> None: ...

    def lost(self) -> None:
        """Nothing is ours any more."""


@dataclass(frozen=True, slots=True)
class View:
    """The group as this worker sees it now."""

    generation: int = 0
    leads: bool = False
    assignment: Assignment | None = None
    settled: bool = False
    """No round is under way, as far as is known here."""


class Alone:
    """A standalone worker: it leads, and has everything."""

    def __init__(self, url: str, herder: Tells) -> None:
        self._url = url
        self._herder = herder
        self.view = View()

    def start(self) -> None:
        self.rejoin()

    def rejoin(self) -> None:
        names, offset = self._herder.connectors()
        owners = dict.fromkeys(names, self._url)
        assignment = Assignment(self._url, offset, tuple(sorted(names)), owners)
        self.view = View(0, leads=True, assignment=assignment, settled=True)
        self._herder.assigned(assignment, 0)

    def close(self) -> None:
        """Nobody has to be told."""


class Group:
    def __init__(
        self,
        member: GroupMember,
        *,
        url: str,
        herder: Tells,
        heartbeat_s: float,
        session_s: float,
        ready: Callable[[], bool],
    ) -> None:
        self._member = member
        self._url = url
        self._herder = herder
        self._heartbeat_s = heartbeat_s
        self._session_s = session_s
        self._ready = ready
        self._wake = threading.Event()
        self._rejoin = True
        self._stopping = False
        self._heard = 0.0
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="ottla-connect-group", daemon=True)
        self.view = View()

    def start(self) -> None:
        self._thread.start()

    def rejoin(self) -> None:
        """Something has changed that the leader must know."""
        self._rejoin = True
        self._wake.set()

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S_MAX)
        try:
            self._member.leave()
        except KafkaError as error:
            log.debug("the group could not be told: %s", error)
        self._member.close()

    def _run(self) -> None:
        while not self._stopping and not self._ready():  # the config topic is still being read
            time.sleep(RETRY_S / 5)
        while not self._stopping:
            try:
                self._step()
            except KafkaError as error:
                self._failed(error)
            except Exception:  # without this thread nothing would ever run here again
                log.exception("trouble with the group of workers, trying again")
                time.sleep(RETRY_S)

    def _step(self) -> None:
        if self._rejoin:
            self._join()
            return
        if not self._wake.wait(self._heartbeat_s):
            self._member.heartbeat()
            self._heard = time.monotonic()
        self._wake.clear()

    def _join(self) -> None:
        self._rejoin = False
        self._wake.clear()
        view = self.view
        self.view = View(view.generation, view.leads, view.assignment, settled=False)
        mine = Member(self._url, tuple(sorted(self._herder.owned())))
        joined = self._member.join(mine.to_json())
        given = self._member.sync(self._assignments(joined) if joined.leads else {})
        self._heard, self._trouble = time.monotonic(), ""
        assignment = Assignment.from_json(given)
        self.view = View(joined.generation, joined.leads, assignment, settled=not self._rejoin)
        log.info(
            "generation %d of the workers: connectors here: %d, led by %s",
            joined.generation,
            len(assignment.connectors),
            assignment.leader_url,
        )
        self._herder.assigned(assignment, joined.generation)

    def _assignments(self, joined: Joined) -> dict[str, bytes]:
        members = {id_: Member.from_json(data) for id_, data in joined.members.items()}
        names, offset = self._herder.connectors()
        found = assign(names, members)
        owners = {name: members[id_].url for id_, mine in found.items() for name in mine}
        leader_url = members[joined.leader_id].url
        return {
            id_: Assignment(leader_url, offset, tuple(mine), owners).to_json()
            for id_, mine in found.items()
        }

    def _failed(self, error: KafkaError) -> None:
        """A round under way is no failure; being out of the group is, and so is a long silence."""
        self._rejoin = True
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            return
        late = self._heard and time.monotonic() - self._heard > self._session_s
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION) or late:
            log.warning("this worker is out of the group: %s", error)
            self._heard = 0.0
            self.view = View()
            self._herder.lost()
        elif str(error) != self._trouble:
            log.warning("the group of workers can't be reached, trying again: %s", error)
        self._trouble = str(error)
        time.sleep(RETRY_S)
