"""How suites of schema registries and their clients are run against Ottla's registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from suites.go_steps import test_binary_step
from suites.outcomes import read_jest
from suites.python_steps import confluent, pytest_step
from suites.sources import STAND_INS
from suites.suite import Run, Step

CONFLUENT_TESTS = ("tests/integration/schema_registry",)
KARAPACE_TESTS = tuple(
    f"tests/integration/test_{name}.py"
    for name in (
        *("schema", "schema_compatibility", "schema_avro_references", "schema_registry_mode"),
        *("jsonschema", "schema_protobuf", "dependencies_compatibility_protobuf"),
        *("client", "client_protobuf"),
    )
)
# What other processes, databases and logs of AxonOps' own registry are tested by.
NOT_OVER_REST = ("operational", "auth", "mcp", "kms", "audit", "analysis", "oidc", "jwt", "mtls")


def axonops(run: Run, left_out: dict[str, str]) -> list[Step]:
    """The scenarios that its authors run against Confluent's registry."""
    return [_axonops(run, left_out, {})]


def axonops_tagged(tag: str) -> Callable[[Run, dict[str, str]], Sequence[Step]]:
    """Scenarios with a tag that its authors run against their own registry alone."""
    tags = " && ".join([f"@{tag}", *(f"~@{name}" for name in NOT_OVER_REST)])
    return lambda run, left_out: [_axonops(run, left_out, {"BDD_TAGS": tags})]


def _axonops(run: Run, left_out: dict[str, str], environment: dict[str, str]) -> Step:
    environment = {"BDD_BACKEND": "confluent", "BDD_REGISTRY_URL": run.registry, **environment}
    only = f"-test.run=TestFeatures{f'/{run.tests}' if run.tests else ''}"
    cwd = run.home / "sources/tests/bdd"
    return test_binary_step(run, "bdd", cwd, environment, [only], list(left_out))


def confluent_registry(run: Run, left_out: dict[str, str]) -> list[Step]:
    (step,) = confluent(run, left_out, wanted=CONFLUENT_TESTS)
    return [replace(step, environment={**step.environment, "SR_URL": run.registry})]


def karapace(run: Run, left_out: dict[str, str]) -> list[Step]:
    """Its tests import its own sources, for a client and for error messages."""
    switches = ("--registry-url", run.registry, "--kafka-bootstrap-servers", run.bootstrap)
    environment = {"PYTHONPATH": f"{run.home / 'sources/src'}:{STAND_INS}"}
    wanted = [*KARAPACE_TESTS, "-o", "addopts=", "-p", "karapace_registry", *switches]
    return [pytest_step(run, wanted, list(left_out), environment)]


def kafkajs_registry(run: Run, left_out: dict[str, str]) -> list[Step]:
    """The excluded tests are a file."""
    report = run.folder / "report.json"
    command = [
        str(run.home / "sources/node_modules/.bin/jest"), "--ci", "--maxWorkers=1", "--forceExit",
        "--no-watchman", "--json", f"--outputFile={report}",
    ]  # fmt: skip
    command += [f"--testPathIgnorePatterns={name}" for name in ("/node_modules/", *left_out)]
    if run.tests:
        command += ["--testNamePattern", run.tests]
    return [Step(command, run.home / "sources", read_jest, report=report)]
