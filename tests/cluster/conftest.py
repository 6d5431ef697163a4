from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing.zookeeper import ZooKeeperServer


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """One server for all tests that need one; ZooKeeperMissing says what to install."""
    with ZooKeeperServer() as server:
        yield server
