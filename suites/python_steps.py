"""How the suites of Python clients are run: pytest in a separate environment."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from suites.outcomes import read_junit
from suites.sources import REPOSITORY, STAND_INS
from suites.suite import Run, Step

SERVICE = REPOSITORY / "tools/clients/kafka-python/service.py"
TEST_S_MAX = 240
CONFLUENT_TESTS = ("tests/integration",)
# kafka-python behaves as it would with a broker of this age: one suite speaks new versions and old.
NEW, OLD = "4.3", "2.4"
NOT_WHEN_OLD = (
    "test_kafka_version_infer",  # the broker is newer than the version under test
    "test_describe_configs_broker_resource_returns_configs",  # another config source
)


def adopt_kafka_python(sources: Path) -> None:
    """Its source distribution leaves out the module that starts brokers; ours starts none.

    The client itself is installed: beside the tests it would be imported from here.
    """
    shutil.rmtree(sources / "kafka")
    (sources / "test" / "__init__.py").touch()
    shutil.copy(SERVICE, sources / "test" / "service.py")


def kafka_python(run: Run, left_out: dict[str, str]) -> list[Step]:
    steps = []
    for version, more in ((NEW, ()), (OLD, NOT_WHEN_OLD)):
        environment = {
            "KAFKA_URI": f"kafka://{run.addresses[0]}",
            "KAFKA_VERSION": version,
            "KAFKA_ROOT": str(run.home / "sources"),
        }
        step = pytest_step(
            run, ["test/integration"], [*left_out, *more], environment, prefix=f"{version}/"
        )
        steps.append(step)
    return steps


def aiokafka(run: Run, left_out: dict[str, str]) -> list[Step]:
    # The client's own names of its files.
    shutil.copy(run.certificates / "ca.pem", run.certificates / "ca.crt")
    environment = {
        "SUITE_BROKERS": run.bootstrap,
        "SUITE_CERTIFICATES": str(run.certificates),
        **_secured(run),
    }
    switches = ["-p", "aiokafka_brokers", "--docker-image=aiolibs/kafka:2.13_4.3.1", "--no-pull"]
    return [pytest_step(run, ["tests", *switches], list(left_out), environment)]


def confluent(
    run: Run, left_out: dict[str, str], wanted: Sequence[str] = CONFLUENT_TESTS
) -> list[Step]:
    return _confluent(run, left_out, {}, wanted)


def confluent_consumer_protocol(run: Run, left_out: dict[str, str]) -> list[Step]:
    return _confluent(run, left_out, {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"})


def _confluent(
    run: Run,
    left_out: dict[str, str],
    environment: dict[str, str],
    wanted: Sequence[str] = CONFLUENT_TESTS,
) -> list[Step]:
    environment = {"BROKERS": run.bootstrap, **_secured(run), **environment}
    wanted = [*wanted, "-p", "confluent_clusters"]
    return [pytest_step(run, wanted, list(left_out), environment)]


def _secured(run: Run) -> dict[str, str]:
    """For the stand-ins: where the secured listeners are."""
    listeners = {f"SUITE_{name}": ",".join(found) for name, found in run.secured.items()}
    return {**listeners, "PYTHONPATH": str(STAND_INS)}


def pytest_step(
    run: Run, wanted: Sequence[str], left_out: Sequence[str], environment: dict[str, str],
    prefix: str = "",
) -> Step:  # fmt: skip
    report = run.folder / f"{prefix.rstrip('/') or 'report'}.xml"
    expression = " and ".join(
        [*([f"({run.tests})"] if run.tests else []), *(f"not {name}" for name in left_out)]
    )
    command = [
        str(run.home / "venv/bin/python"), "-m", "pytest", *wanted, "-q", "-k", expression,
        "-p", "no:cacheprovider", "--tb=short", f"--timeout={TEST_S_MAX}", f"--junitxml={report}",
    ]  # fmt: skip
    return Step(command, run.home / "sources", read_junit, environment, report, prefix)
