from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing.zookeeper import ZooKeeperMissing, ZooKeeperServer, java_command


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """One server for all tests that need one."""
    try:
        java_command()
    except ZooKeeperMissing as error:
        pytest.skip(str(error))
    with ZooKeeperServer() as server:
        yield server
