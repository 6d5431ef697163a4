"""franz-go (Go modules): our checks in tools/clients/franz-go, and franz-go's own suite."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from compat_brokers import CACHE, REPOSITORY
from compat_checks import Results, names_in, run_checks

SOURCES = sorted((REPOSITORY / "tools" / "clients" / "franz-go").glob("*.go"))
pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Results:
    program = CACHE / "franz-go" / "checks"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    return run_checks([str(program), bootstrap])


@pytest.mark.parametrize("name", names_in(*SOURCES))
def test_franz_go(results: Results, name: str) -> None:
    results.expect(name)


# What franz-go's own tests need and one broker does not have.
LEFT_OUT = {
    "SCRAM": "a SASL listener",
    "TestOptValuesCoversEveryOption": "reads franz-go's source files",
}
# Transactions, KIP-848 and share groups: a run of their own.
NEW_PROTOCOLS = "Txn|848|Share"


def own_suite(bootstrap: str, workplace: Path, *switches: str) -> str:
    program = CACHE / "franz-go" / "kgo.test"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "20000",
    }
    done = subprocess.run(
        [str(program), "-test.v", "-test.timeout=400s", *switches],
        cwd=workplace, env=environment, capture_output=True, text=True, timeout=450,
    )  # fmt: skip
    failed = re.findall(r"^\s*--- FAIL: .*$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, "\n".join(failed) + done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_franz_go_own_suite(bootstrap: str, tmp_path: Path) -> None:
    """Its ETL tests chain groups of every balancer, with members that come, go and commit."""
    skip = "|".join([*LEFT_OUT, NEW_PROTOCOLS])
    output = own_suite(bootstrap, tmp_path, f"-test.skip={skip}")
    for name in ("TestGroupETL/range", "TestGroupETL/cooperative-sticky", "TestClient_Produce"):
        assert re.search(rf"--- PASS: {name} ", output), name


def test_franz_go_own_suite_of_the_new_protocols(bootstrap: str, tmp_path: Path) -> None:
    """The same chains with transactions, with groups of KIP-848, and with share groups."""
    skip = "|".join(LEFT_OUT)
    output = own_suite(bootstrap, tmp_path, f"-test.run={NEW_PROTOCOLS}", f"-test.skip={skip}")
    for name in ("TestTxnEtl", "TestShareGroupETL", "Test848RegexBrokerResolves"):
        assert re.search(rf"--- PASS: {name}\b", output), name
