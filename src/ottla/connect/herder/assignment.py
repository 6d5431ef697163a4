"""The assignment of connectors to workers, computed by the leader of the group.

Incremental cooperative rebalancing as in Kafka Connect (KIP-415), but of whole connectors, and
without scheduled.rebalance.max.delay.ms. A worker keeps its connectors unless it has more than its
share. A revoked connector is assigned to no worker in the same round, because it may still run: its
worker stops it and rejoins, and the next round assigns it to the worker with the fewest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The member's metadata. `owned`: connectors that run there, or are being stopped."""

    url: str
    owned: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        return json.dumps({"url": self.url, "owned": sorted(self.owned)}).encode()

    @staticmethod
    def from_json(data: bytes) -> WorkerState:
        found = json.loads(data)
        return WorkerState(str(found["url"]), tuple(map(str, found["owned"])))


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """The member's assignment. `offset`: how far the leader had read the config topic."""

    leader_url: str = ""
    offset: int = -1
    connectors: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    """Connector -> URL of its worker."""

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "leader_url": self.leader_url,
                "offset": self.offset,
                "connectors": list(self.connectors),
                "owners": dict(self.owners),
            }
        ).encode()

    @staticmethod
    def from_json(data: bytes) -> WorkerAssignment:
        found = json.loads(data)
        return WorkerAssignment(
            str(found["leader_url"]),
            int(found["offset"]),
            tuple(map(str, found["connectors"])),
            {str(name): str(url) for name, url in found["owners"].items()},
        )


def assign(connectors: Iterable[str], members: Mapping[str, WorkerState]) -> dict[str, list[str]]:
    """Member -> connectors. Deterministic, so a new leader assigns as the old one did."""
    names = sorted(connectors)
    ids = sorted(members)
    kept, taken = _kept(names, ids, members)
    share, larger = divmod(len(names), len(ids))
    by_count = sorted(ids, key=lambda member: (-len(kept[member]), member))
    surplus: set[str] = set()
    for index, member in enumerate(by_count):
        allowed = share + (1 if index < larger else 0)
        surplus.update(kept[member][allowed:])
        kept[member] = kept[member][:allowed]
    for name in names:
        if name not in taken and name not in surplus:
            least = min(ids, key=lambda member: (len(kept[member]), member))
            kept[least].append(name)
    assigned = [name for owned in kept.values() for name in owned]
    assert len(assigned) == len(set(assigned)), "a connector on two workers would run twice"
    return kept


def _kept(
    names: list[str], ids: list[str], members: Mapping[str, WorkerState]
) -> tuple[dict[str, list[str]], set[str]]:
    """What each member owns and may keep. If two own the same connector, the second loses it."""
    wanted = set(names)
    taken: set[str] = set()
    kept: dict[str, list[str]] = {}
    for member in ids:
        mine = [name for name in sorted(members[member].owned) if name in wanted]
        kept[member] = [name for name in mine if name not in taken]
        taken.update(mine)
    return kept, taken
