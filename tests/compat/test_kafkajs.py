"""kafkajs (npm): tools/clients/kafkajs/checks.js, one test for each of its checks.

kafkajs speaks old versions (Fetch up to 11, Metadata up to 6, Produce up to 7, JoinGroup up to 5,
ListOffsets up to 3), so this is also the suite of an old client.
"""

from __future__ import annotations

import pytest
from compat_brokers import CACHE, REPOSITORY
from compat_checks import Results, names_in, run_checks

CHECKS = REPOSITORY / "tools" / "clients" / "kafkajs" / "checks.js"


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Results:
    assert (CACHE / "kafkajs" / "node_modules").exists(), "run tools/setup_test_clients.sh first"
    return run_checks(["node", str(CHECKS), bootstrap])


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", names_in(CHECKS))
def test_kafkajs(results: Results, name: str) -> None:
    results.expect(name)
