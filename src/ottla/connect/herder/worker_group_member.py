"""The worker's membership in the group of workers: a classic group, as Kafka Connect's own.

The coordinator tracks liveness and names a leader, which assigns connectors. One thread joins,
receives the assignment and sends heartbeats. The coordinator removes a worker after
`session.timeout.ms` without a heartbeat, and the next round assigns its connectors to others. A
worker that learns that it was removed (it was frozen, or cut off) first stops everything it runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.group_member import Generation, GroupMember
from ottla.connect.herder.assignment import WorkerAssignment, WorkerState, assign
from ottla.errors import ErrorCode, KafkaError

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = (
    "ottla-1"  # so that the group rejects Kafka's workers, which cannot run our connectors
)
RETRY_S: Final = 0.5
CLOSE_S_MAX: Final = 10.0

log = logging.getLogger("ottla.connect")


class WorkerRebalanceListener(Protocol):
    """Implemented by the herder; called on the membership's thread."""

    def owned(self) -> Collection[str]:
        """The connectors that run here, or are being stopped."""

    def connectors(self) -> tuple[Collection[str], int]:
        """All connectors of the cluster, and the offset of the config topic that this reflects."""

    def on_assigned(self, assignment: WorkerAssignment, generation: int) -> None: ...

    def on_lost(self) -> None:
        """This worker is no longer a member: it owns nothing."""


@dataclass(frozen=True, slots=True)
class MembershipView:
    """The group, as this worker currently sees it."""

    generation: int = 0
    is_leader: bool = False
    assignment: WorkerAssignment | None = None
    stable: bool = False
    """No rebalance is in progress, as far as this worker knows."""


class StandaloneMember:
    """The membership of a standalone worker: it leads, and owns every connector."""

    def __init__(self, url: str, herder: WorkerRebalanceListener) -> None:
        self._url = url
        self._herder = herder
        self.view = MembershipView()

    def start(self) -> None:
        self.rejoin()

    def rejoin(self) -> None:
        names, offset = self._herder.connectors()
        owners = dict.fromkeys(names, self._url)
        assignment = WorkerAssignment(self._url, offset, tuple(sorted(names)), owners)
        self.view = MembershipView(0, is_leader=True, assignment=assignment, stable=True)
        self._herder.on_assigned(assignment, 0)

    def close(self) -> None:
        """There is no group to leave."""


class WorkerGroupMember:
    def __init__(
        self,
        member: GroupMember,
        *,
        url: str,
        herder: WorkerRebalanceListener,
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
        self._last_contact_s = 0.0
        self._logged_error = ""
        self._thread = threading.Thread(target=self._run, name="ottla-connect-group", daemon=True)
        self.view = MembershipView()

    def start(self) -> None:
        self._thread.start()

    def rejoin(self) -> None:
        """Join again: what the leader assigns has changed."""
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
            log.debug("Leaving the group failed: %s", error)
        self._member.close()

    def _run(self) -> None:
        while not self._stopping and not self._ready():  # the config topic is still being replayed
            time.sleep(RETRY_S / 5)
        while not self._stopping:
            try:
                self._step()
            except KafkaError as error:
                self._failed(error)
            except Exception:  # without this thread the worker would never run anything again
                log.exception("Unexpected error in the group member, will retry")
                time.sleep(RETRY_S)

    def _step(self) -> None:
        if self._rejoin:
            self._join()
            return
        if not self._wake.wait(self._heartbeat_s):
            self._member.heartbeat()
            self._last_contact_s = time.monotonic()
        self._wake.clear()

    def _join(self) -> None:
        self._rejoin = False
        self._wake.clear()
        view = self.view
        self.view = MembershipView(view.generation, view.is_leader, view.assignment, stable=False)
        mine = WorkerState(self._url, tuple(sorted(self._herder.owned())))
        joined = self._member.join(mine.to_json())
        given = self._member.sync(self._assignments(joined) if joined.leads else {})
        self._last_contact_s, self._logged_error = time.monotonic(), ""
        assignment = WorkerAssignment.from_json(given)
        self.view = MembershipView(
            joined.generation, joined.leads, assignment, stable=not self._rejoin
        )
        log.info(
            "Joined group at generation %d: %d connectors assigned, leader is %s",
            joined.generation,
            len(assignment.connectors),
            assignment.leader_url,
        )
        self._herder.on_assigned(assignment, joined.generation)

    def _assignments(self, joined: Generation) -> dict[str, bytes]:
        members = {id_: WorkerState.from_json(data) for id_, data in joined.members.items()}
        names, offset = self._herder.connectors()
        found = assign(names, members)
        owners = {name: members[id_].url for id_, mine in found.items() for name in mine}
        leader_url = members[joined.leader_id].url
        return {
            id_: WorkerAssignment(leader_url, offset, tuple(mine), owners).to_json()
            for id_, mine in found.items()
        }

    def _failed(self, error: KafkaError) -> None:
        """A rebalance is not an error. Removal from the group is, and so is a coordinator that was
        unreachable for a whole session: by then others may run this worker's connectors."""
        self._rejoin = True
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            return
        late = self._last_contact_s and time.monotonic() - self._last_contact_s > self._session_s
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION) or late:
            log.warning("This worker was removed from the group: %s", error)
            self._last_contact_s = 0.0
            self.view = MembershipView()
            self._herder.on_lost()
        elif str(error) != self._logged_error:
            log.warning("Group coordinator unavailable, will retry: %s", error)
        self._logged_error = str(error)
        time.sleep(RETRY_S)
