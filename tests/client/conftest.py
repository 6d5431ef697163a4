"""The broker that the client's tests share: ours, or the one at OTTLA_TEST_BOOTSTRAP."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.testing import LocalCluster


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    external = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    return external or request.getfixturevalue("kafka_session").bootstrap_servers


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    """A new topic with one partition."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin.topics.create(name, 1)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def with_registry() -> Iterator[LocalCluster]:
    """A broker with a schema registry beside it."""
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def registry_url(with_registry: LocalCluster) -> str:
    return with_registry.registry_url
