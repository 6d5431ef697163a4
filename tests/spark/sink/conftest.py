"""One broker for all tests of the sink; each test has its own topics and queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import LocalCluster


@pytest.fixture(scope="package")
def broker() -> Iterator[LocalCluster]:
    with LocalCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster
