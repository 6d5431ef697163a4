"""How librdkafka's own C tests are run: its test-runner, in the quick mode of its own CI."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from suites import librdkafka_security
from suites.outcomes import Outcome, Outcomes, read_librdkafka
from suites.security import ORDINARY
from suites.sources import CACHE
from suites.suite import Run, Step

FOLDER = CACHE / "librdkafka"
KAFKA_VERSION = "4.3.1"

# Stalls and breaks of connections: one at a time, as the runner's emulation of sockets is shared.
SOCKET_TESTS = "0049,0068,0075,0076,0094"
# They start Kafka's tools, and a test that takes too long ends the whole runner.
TOOL_TESTS = "0098,0109,0115,0119"
# 0081_admin, one subtest at a time, or the first failure hides the rest.
ADMIN_SUBTESTS = (
    "do_test_CreateTopics", "do_test_DeleteTopics", "do_test_CreatePartitions",
    "do_test_AlterConfigs", "do_test_IncrementalAlterConfigs", "do_test_DescribeConfigs",
    "do_test_DeleteRecords", "do_test_DeleteGroups", "do_test_ListConsumerGroups",
    "do_test_DescribeConsumerGroups", "do_test_DescribeTopics", "do_test_DescribeCluster",
    "do_test_DeleteConsumerGroupOffsets", "do_test_AlterConsumerGroupOffsets",
    "do_test_ListConsumerGroupOffsets", "do_test_ListOffsets", "do_test_unclean_destroy",
    "do_test_CreateAcls", "do_test_DescribeAcls", "do_test_DeleteAcls",
    "do_test_UserScramCredentials",
)  # fmt: skip
# How the runner says that its switches have left a test out.
LEFT_OUT = re.compile(r"TESTS_SKIP|negative test flags|not included in TESTS")
# Not run in the first step: they have steps of their own, or a reason in the catalogue.
APART = f"{SOCKET_TESTS},{TOOL_TESTS},0081,0088"


def classic(run: Run, left_out: dict[str, str]) -> list[Step]:
    return _steps(run, left_out, {})


def consumer_protocol(run: Run, left_out: dict[str, str]) -> list[Step]:
    """All tests again, with the group protocol of KIP-848."""
    return _steps(run, left_out, {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"})


def over_sasl_ssl(run: Run, left_out: dict[str, str]) -> list[Step]:
    """All tests once more, with all their connections encrypted and authenticated.

    0081 makes ACLs for its own user and checks what that user may do.
    """
    config = librdkafka_security.sasl_ssl(run, "SCRAM-SHA-512", ORDINARY)
    return _steps(run, left_out, {}, config)


def security(run: Run, left_out: dict[str, str]) -> list[Step]:
    """The tests of TLS and SASL themselves, each with every configuration that it knows.

    One at a time: a runner whose test fails in the midst of its clients takes the rest with it. Not
    in the quick mode, which leaves out all of 0142, and with those that count as local.
    """
    steps = []
    for name, config, tests in librdkafka_security.configurations(run):
        file = _lay_out(run, config, name)
        environment = {**librdkafka_security.environment(run), "RDKAFKA_TEST_CONF": str(file)}
        for test in tests:
            if not run.tests or test in run.tests:
                step = _step(run, environment, 1, prefix=f"{name}/", TESTS=test)
                whole = [word for word in step.command if word not in ("-L", "-Q")]
                steps.append(replace(step, command=whole))
    return steps


def _lay_out(run: Run, config: dict[str, str], name: str = "test") -> Path:
    """A folder that looks like librdkafka's own, because tests look for files beside them."""
    work = run.folder / "tests"
    if not work.exists():
        work.mkdir()
        for part in ("java", "fixtures"):
            (work / part).symlink_to(FOLDER / "tests" / part)
        (run.folder / "src").symlink_to(FOLDER / "src")
    file = work / f"{name}.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return file


def _steps(
    run: Run,
    left_out: dict[str, str],
    environment: dict[str, str],
    config: dict[str, str] | None = None,
) -> list[Step]:
    _lay_out(run, config or {"bootstrap.servers": run.bootstrap})
    if run.tests:
        name, _, subtest = run.tests.partition("/")
        return [
            _step(run, environment, 1, TESTS=name, **({"SUBTESTS": subtest} if subtest else {}))
        ]
    skipped = ",".join([APART, *(number for numbers in left_out for number in numbers.split())])
    admin = [
        _step(run, environment, 1, prefix=f"{name}/", TESTS="0081", SUBTESTS=name)
        for name in ADMIN_SUBTESTS
    ]
    return [
        _step(run, environment, 3, TESTS_SKIP=skipped),
        _step(run, environment, 1, TESTS=TOOL_TESTS),
        _step(run, environment, 1, TESTS=SOCKET_TESTS),
        *admin,
    ]


def _step(
    run: Run, environment: dict[str, str], at_once: int, prefix: str = "", **switches: str
) -> Step:
    return Step(
        # -L: no tests of librdkafka's own mock brokers. -Q: the quick mode.
        command=[str(FOLDER / "tests" / "test-runner"), "-L", "-Q", f"-p{at_once}"],
        cwd=run.folder / "tests",
        read=read_run,
        environment={
            "LD_LIBRARY_PATH": f"{FOLDER / 'src'}:{FOLDER / 'src-cpp'}",
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            "CI": "true",  # longer limits, for a machine that is busy
            "BROKERS": run.bootstrap,
            "KAFKA_PATH": str(run.tools),
            **environment,
            **switches,
        },
        prefix=prefix,
    )


def read_run(output: str) -> Outcomes:
    """Without the tests that the switches of the run left out: they are not skipped by the suite.

    A runner that dies prints no table; what it was doing then has failed.
    """
    outcomes = {
        name: outcome
        for name, outcome in read_librdkafka(output).items()
        if not (outcome.verdict == "skipped" and LEFT_OUT.search(outcome.reason))
    }
    if not outcomes:
        running = re.findall(r"\[(\d{4}_\w+)\s*/", output)
        name = running[-1] if running else "test-runner"
        last = [line for line in output.splitlines() if line.strip()][-1:]
        outcomes[name] = Outcome("failed", f"the test-runner died: {''.join(last)[-200:]}")
    return outcomes
