"""How the suites of Go clients are run: compiled tests, whose output test2json reads."""

from __future__ import annotations

from pathlib import Path

from suites.outcomes import read_go
from suites.security import ADMIN, SASL_PLAINTEXT, SSL
from suites.suite import Run, Step

KAFKA_VERSION = "4.3.1"
# Transactions, KIP-848 and share groups have a step of their own: with all the rest at once a small
# machine only waits.
NEW_PROTOCOLS = "Txn|848|Share"


def franz_go(run: Run, left_out: dict[str, str]) -> list[Step]:
    return _franz_go(run, left_out, {"KGO_SEEDS": run.bootstrap})


def franz_go_over_tls(run: Run, left_out: dict[str, str]) -> list[Step]:
    """All tests again, each connection with TLS and a certificate on both sides."""
    files = {"ca": "ca.pem", "cert": "client.crt", "key": "client.key"}
    tls = ",".join(f"{what}:{run.certificates / name}" for what, name in files.items())
    seeds = ",".join(run.secured[SSL])
    return _franz_go(run, left_out, {"KGO_SEEDS": seeds, "KGO_TEST_TLS": tls})


def _franz_go(run: Run, left_out: dict[str, str], reach: dict[str, str]) -> list[Step]:
    environment = {
        **reach,
        "KGO_TEST_SCRAM": ":".join(ADMIN),
        "KGO_TEST_SCRAM_SEEDS": ",".join(run.secured[SASL_PLAINTEXT]),
        "KGO_TEST_RF": str(run.replicas),
        "KGO_TEST_RECORDS": "20000",
    }
    folder = run.home / "sources/pkg/kgo"
    skipped = list(left_out)
    if run.tests:
        return [
            test_binary_step(run, "kgo", folder, environment, [f"-test.run={run.tests}"], skipped)
        ]
    return [
        test_binary_step(run, "kgo", folder, environment, [], [*skipped, NEW_PROTOCOLS]),
        test_binary_step(run, "kgo", folder, environment, [f"-test.run={NEW_PROTOCOLS}"], skipped),
    ]


def sarama(run: Run, left_out: dict[str, str]) -> list[Step]:
    environment = {"TOXIPROXY_ADDR": run.proxy, "KAFKA_VERSION": KAFKA_VERSION}
    only = [f"-test.run={run.tests}"] if run.tests else []
    return [test_binary_step(run, "root", run.home / "sources", environment, only, list(left_out))]


def kafka_go(run: Run, left_out: dict[str, str]) -> list[Step]:
    """KAFKA_VERSION decides which tests it has; its own CI ends with this one."""
    environment = {"KAFKA_VERSION": "3.7.0", "KAFKA_SKIP_NETTEST": "1"}
    only = [f"-test.run={run.tests}"] if run.tests else []
    sources = run.home / "sources"
    return [
        test_binary_step(run, "root", sources, environment, only, list(left_out)),
        test_binary_step(run, "topics", sources / "topics", environment, only, list(left_out)),
        test_binary_step(run, "sasl", sources / "sasl", environment, only, list(left_out)),
    ]


def test_binary_step(
    run: Run,
    binary: str,
    cwd: Path,
    environment: dict[str, str],
    switches: list[str],
    skipped: list[str],
) -> Step:
    command = [
        "go", "tool", "test2json", "-t", str(run.home / f"{binary}.test"), "-test.v",
        "-test.timeout=25m", *switches,
    ]  # fmt: skip
    if skipped:
        command.append(f"-test.skip={'|'.join(skipped)}")
    return Step(command, cwd, read_go, environment)
