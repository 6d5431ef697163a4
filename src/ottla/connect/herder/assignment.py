"""Which worker runs which connector: decided by the leader, in steps that stop nothing needlessly.

As Kafka Connect's incremental cooperative rebalancing (KIP-415), but for whole connectors and
without its five minutes of waiting for a lost worker: whoever has a connector keeps it, unless it
has more than its share; what it must give up is given to nobody in this round. It is stopped, the
worker joins again, and the next round gives it to the worker that has the fewest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Member:
    """What a worker says of itself when it joins. `owned`: what runs there, or is being stopped."""

    url: str
    owned: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        return json.dumps({"url": self.url, "owned": sorted(self.owned)}).encode()

    @staticmethod
    def from_json(data: bytes) -> Member:
        found = json.loads(data)
        return Member(str(found["url"]), tuple(map(str, found["owned"])))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is told. `offset`: how far the leader had read the config topic."""

    leader_url: str = ""
    offset: int = -1
    connectors: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    """For each connector the URL of the worker that has it."""

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
    def from_json(data: bytes) -> Assignment:
        found = json.loads(data)
        return Assignment(
            str(found["leader_url"]),
            int(found["offset"]),
            tuple(map(str, found["connectors"])),
            {str(name): str(url) for name, url in found["owners"].items()},
        )


def assign(connectors: Iterable[str], members: Mapping[str, Member]) -> dict[str, list[str]]:
    """For each member its connectors. The same question has the same answer, whoever asks."""
    names = sorted(connectors)
    ids = sorted(members)
    kept, taken = _kept(names, ids, members)
    share, larger = divmod(len(names), len(ids))
    by_count = sorted(ids, key=lambda each: (-len(kept[each]), each))
    surplus: set[str] = set()
    for place, each in enumerate(by_count):
        allowed = share + (1 if place < larger else 0)
        surplus.update(kept[each][allowed:])
        kept[each] = kept[each][:allowed]
    for name in names:
        if name not in taken and name not in surplus:
            least = min(ids, key=lambda each: (len(kept[each]), each))
            kept[least].append(name)
    return kept


def _kept(
    names: list[str], ids: list[str], members: Mapping[str, Member]
) -> tuple[dict[str, list[str]], set[str]]:
    """What each one has and may keep. Of two that have the same the second must give it up."""
    wanted = set(names)
    taken: set[str] = set()
    kept: dict[str, list[str]] = {}
    for each in ids:
        mine = [name for name in sorted(members[each].owned) if name in wanted]
        kept[each] = [name for name in mine if name not in taken]
        taken.update(mine)
    return kept, taken
