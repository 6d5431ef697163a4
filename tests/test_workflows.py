"""What GitHub and pre-commit run: files that can be read, and commands that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

HOUSE: Final = Path(__file__).parents[1]
WORKFLOWS: Final = sorted((HOUSE / ".github/workflows").glob("*.yml"))
PYTHONS: Final = ["3.11", "3.12", "3.13"]


def read(path: Path) -> Any:
    # The base loader leaves `on` and 3.10 what they are; YAML 1.1 makes true and 3.1 of them.
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read(HOUSE / ".github/workflows" / name)["jobs"]
    return found


def commands(job: dict[str, Any]) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_what_github_requires(path: Path) -> None:
    workflow = read(path)
    assert {"name", "on", "permissions", "jobs"} <= set(workflow)
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@v[\d.]+", step.get("uses", "actions/x@v1"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_of_the_makefile(path: Path) -> None:
    makefile = (HOUSE / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):(?!=)", makefile, re.MULTILINE))
    named = {
        target
        for job in read(path)["jobs"].values()
        for line in commands(job)
        if line.startswith("make ")
        for target in line.split()[1:]
    }
    assert named <= targets
    assert named or path.name == "wheels.yml"


@pytest.mark.parametrize("name", ["interpreted", "compiled"])
def test_ci_runs_both_builds_on_every_python(name: str) -> None:
    job = jobs("ci.yml")[name]
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    assert {"python-version": "${{ matrix.python }}"} in [step.get("with") for step in job["steps"]]


def test_ci_has_every_kind_of_check() -> None:
    run = {line for job in jobs("ci.yml").values() for line in commands(job)}
    assert {"make check", "make test", "make wheel test-compiled", "make maven"} <= run
    assert "make coverage" in run
    assert any("docs" in line.split() for line in commands(jobs("docs.yml")["docs"]))


def test_wheels_are_built_for_every_supported_platform() -> None:
    runners = jobs("wheels.yml")["compiled"]["strategy"]["matrix"]["runner"]
    assert {"ubuntu-latest", "ubuntu-24.04-arm", "macos-15-intel", "macos-latest"} == set(runners)
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    settings = project["tool"]["cibuildwheel"]
    assert "uv" not in settings.get("build-frontend", "")  # the action does not bring it to macOS
    classifiers = project["project"]["classifiers"]
    built = [f"cp{python.replace('.', '')}-*" for python in [*PYTHONS, "3.14"]]
    wanted = settings["build"]
    assert (wanted.split() if isinstance(wanted, str) else wanted) == built
    for python in [*PYTHONS, "3.14"]:
        assert f"Programming Language :: Python :: {python}" in classifiers


def test_every_test_on_spark_is_in_its_lane() -> None:
    """The lane names folders, because collecting all tests takes half a minute."""
    shown = subprocess.run(
        ["make", "--dry-run", "--always-make", "spark"],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (lane,) = (line for line in shown.splitlines() if "spark or postgres" in line)
    named = [HOUSE / word for word in lane.split() if word.startswith("tests/")]
    marked = [
        path
        for path in (HOUSE / "tests").rglob("test_*.py")
        if re.search(r"mark\.(spark|postgres)\b", path.read_text(encoding="utf-8"))
        and HOUSE / "tests/compat" not in path.parents  # `make clients` runs these
    ]
    assert len(marked) > 20
    assert [path for path in marked if not {path, *path.parents} & set(named)] == []


def test_pre_commit_runs_tools_of_the_environment() -> None:
    scripts = Path(sys.executable).parent
    (repository,) = read(HOUSE / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/")
        assert (scripts / Path(program).name).exists()


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_a_template_asks_by_fields_that_github_knows(name: str) -> None:
    form = read(HOUSE / ".github/ISSUE_TEMPLATE" / name)
    assert {"name", "description", "labels", "body"} <= set(form)
    fields = form["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    for field in fields:
        assert field["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["label"]
        assert field["attributes"].get("render", "text") in {"text", "ini", "shell", "python"}
