"""A broker for all tests here, a server for each module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from sql_servers import running

from ottla.testing import LocalCluster


@pytest.fixture(scope="session")
def sql_cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as started:
        yield started


@pytest.fixture(scope="module")
def url(sql_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    with running(sql_cluster, f"{request.module.__name__}_") as started:
        yield started


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    """HTTP/2 with prior knowledge, as ksqlDB's clients speak."""
    with httpx.Client(base_url=url, http1=False, http2=True, timeout=60) as made:
        yield made
