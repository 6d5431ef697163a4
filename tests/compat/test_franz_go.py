"""franz-go (Go modules): tools/clients/franz-go, one test for each of its checks."""

from __future__ import annotations

import pytest
from compat_brokers import CACHE, REPOSITORY
from compat_checks import Results, names_in, run_checks

SOURCES = sorted((REPOSITORY / "tools" / "clients" / "franz-go").glob("*.go"))
pytestmark = [pytest.mark.maven, pytest.mark.timeout(480)]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Results:
    program = CACHE / "franz-go" / "checks"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    return run_checks([str(program), bootstrap])


@pytest.mark.parametrize("name", names_in(*SOURCES))
def test_franz_go(results: Results, name: str) -> None:
    results.expect(name)
