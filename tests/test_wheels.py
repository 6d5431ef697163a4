"""setup.py: which kind of wheel it builds, and what it says if it can't compile.

`make wheel` builds a compiled one and tries it; here nothing is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_COMPILED = "ottla: the wheel is not compiled, and slower: "
HOOK = """
import sys
from setuptools import build_meta

print(getattr(build_meta, sys.argv[1])(*sys.argv[2:]))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project that has nothing to compile but what setup.py compiles to see that it can."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "ottla"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return tmp_path


def ask(tree: Path, hook: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A build frontend's question to setuptools. The last line is its answer."""
    environment = {**os.environ, "CC": "no-such-compiler", **variables}
    command = [sys.executable, "-c", HOOK, hook, *words]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)


def test_without_a_compiler_the_wheel_is_pure_and_one_line_says_why(tree: Path) -> None:
    built = ask(tree, "build_wheel", "dist", OTTLA_COMPILE="")
    assert built.stdout.endswith("-py3-none-any.whl\n")
    (line,) = [line for line in built.stderr.splitlines() if line.startswith(NOT_COMPILED)]
    assert "no-such-compiler" in line


def test_a_build_that_fails_on_the_way_is_pure_too(tree: Path) -> None:
    """The compiler works, but there is no hot module in this tree."""
    built = ask(tree, "build_wheel", "dist", OTTLA_COMPILE="", CC="cc")
    assert built.stdout.endswith("-py3-none-any.whl\n")
    assert built.stderr.count(NOT_COMPILED) == 1


def test_a_required_compiled_wheel_is_never_replaced(tree: Path) -> None:
    built = ask(tree, "build_wheel", "dist", OTTLA_COMPILE="1")
    assert built.returncode == 1
    assert not list(tree.glob("dist/*.whl"))


def test_a_pure_wheel_by_a_setting_looks_for_no_compiler(tree: Path) -> None:
    built = ask(tree, "build_wheel", "dist", OTTLA_COMPILE="0")
    assert built.stdout.endswith("-py3-none-any.whl\n")
    assert "compile" not in built.stderr.replace("byte-compiling", "")
    assert ask(tree, "get_requires_for_build_wheel", OTTLA_COMPILE="0").stdout.endswith("[]\n")


def test_a_build_asks_for_mypy_only_where_it_can_compile(tree: Path) -> None:
    assert "mypy" not in ask(tree, "get_requires_for_build_wheel", OTTLA_COMPILE="").stdout
    compiler = ask(tree, "get_requires_for_build_wheel", OTTLA_COMPILE="", CC="cc").stdout
    python_h = Path(sysconfig.get_path("include"), "Python.h")
    able = shutil.which("cc") is not None and python_h.exists()
    assert ("['mypy==" in compiler) == able


def test_an_editable_install_is_never_compiled(tree: Path) -> None:
    """It would fail here if it tried: there is no hot module in this tree."""
    built = ask(tree, "build_editable", "dist", OTTLA_COMPILE="1", CC="cc")
    assert built.returncode == 0, built.stderr
    assert not list(tree.rglob("*.so"))
