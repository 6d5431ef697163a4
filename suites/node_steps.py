"""How kafkajs's suite is run: jest, with a stand-in for docker."""

from __future__ import annotations

from dataclasses import replace

from suites.outcomes import read_junit
from suites.suite import Run, Step

# What its package.json runs with brokers that know this mechanism only.
OAUTHBEARER_FILES = (
    "src/producer/index.spec.js", "src/broker/__tests__/connect.spec.js",
    "src/consumer/__tests__/connection.spec.js", "src/broker/__tests__/disconnect.spec.js",
    "src/admin/__tests__/connection.spec.js", "src/broker/__tests__/reauthenticate.spec.js",
)  # fmt: skip


def kafkajs_oauthbearer(run: Run, left_out: dict[str, str]) -> list[Step]:
    (step,) = kafkajs(run, left_out)
    return [
        replace(
            step,
            command=[*step.command, *OAUTHBEARER_FILES],
            environment={**step.environment, "OAUTHBEARER_ENABLED": "1"},
        )
    ]


def kafkajs(run: Run, left_out: dict[str, str]) -> list[Step]:
    """KAFKA_VERSION is the newest that it knows; its own CI runs with it.

    What is left out is a file, or a part of a test's name.
    """
    report = run.folder / "report.xml"
    command = [
        str(run.home / "sources/node_modules/.bin/jest"), "--ci", "--maxWorkers=2", "--forceExit",
        "--no-watchman",
    ]  # fmt: skip
    files = [name for name in left_out if name.endswith(".js")]
    names = [name for name in left_out if name not in files]
    command += [f"--testPathIgnorePatterns={name}" for name in ("/node_modules/", *files)]
    without = f"(?!.*({'|'.join(names)}))" if names else ""
    command += ["--testNamePattern", f"^{without}.*{run.tests or ''}"]
    environment = {
        "KAFKA_VERSION": "2.4",
        "NODE_ENV": "test",
        "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
        "JEST_JUNIT_OUTPUT_DIR": str(report.parent),
        "JEST_JUNIT_OUTPUT_NAME": report.name,
    }
    return [Step(command, run.home / "sources", read_junit, environment, report)]
