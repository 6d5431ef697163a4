"""What a suite is: where it comes from, what it assumes of brokers, how it is run and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from suites.outcomes import Outcomes
from suites.registry_server import RegistryNeed
from suites.security import SuiteSecurity
from suites.token_provider import TokenProvider

HOUR_S = 3600


class Source(Protocol):
    """Where the files of a suite come from."""

    def where(self) -> str:
        """For --list and the docs."""
        ...

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        """Installs what a run needs below `home`; quick if it is already installed."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a suite on running brokers."""

    home: Path
    """What `Source.prepare` has filled."""
    folder: Path
    """For the logs and files of this run, empty at its start."""
    addresses: Sequence[str]
    """host:port of each broker, as clients see it."""
    tools: Path
    """Laid out as an unpacked Kafka: bin with its tools, libs with its jars."""
    tests: str | None = None
    """Only these tests, in the suite's own way to name them."""
    proxy: str = ""
    """toxiproxy's own address, where clients reach brokers through it."""
    secured: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """host:port of each broker's secured listeners, by protocol."""
    provider: TokenProvider | None = None
    registry: str = ""
    """URL of the schema registry, where the suite needs one."""
    certificates: Path = Path()
    """See `security.make_certificates`; only where there are secured listeners."""

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    @property
    def brokers(self) -> int:
        return len(self.addresses)

    @property
    def replicas(self) -> int:
        return min(self.brokers, 3)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a run. Its output, or a file that it writes, has the outcomes."""

    command: Sequence[str]
    cwd: Path
    read: Callable[[str], Outcomes]
    environment: Mapping[str, str] = field(default_factory=dict)
    report: Path | None = None
    """The file with the outcomes; without one they are in what the command prints."""
    prefix: str = ""
    """Goes before the names of tests, where several steps run tests of the same names."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure with a reason. Patterns are searched for in the test's name."""

    pattern: str
    reason: str
    brokers: frozenset[int] = frozenset()
    """On clusters of these sizes; on all if empty."""
    sometimes: bool = False
    """It passes in some runs, and that is no news."""

    def matches(self, test: str, brokers: int) -> bool:
        here = not self.brokers or brokers in self.brokers
        return here and re.search(self.pattern, test) is not None


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    source: Source
    steps: Callable[[Run, dict[str, str]], Sequence[Step]]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Broker properties that the suite assumes."""
    brokers: Sequence[int] = (1, 3)
    """Sizes of clusters it is run on."""
    ports: Sequence[int] = ()
    """Fixed addresses at which the suite expects brokers."""
    host: str = "127.0.0.1"
    """What brokers advertise."""
    first_id: int = 1
    racks: bool = False
    proxied: bool = False
    """Clients reach the brokers through toxiproxy, brokers reach each other directly."""
    secured: SuiteSecurity | None = None
    registry: RegistryNeed | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tests that are not run, in the suite's own way to name them, and why."""
    known: Sequence[KnownFailure] = ()
    limit_s: int = HOUR_S
