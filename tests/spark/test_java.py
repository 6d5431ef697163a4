"""Which Java is chosen, without starting one unless it lacks a release file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.spark import java


def a_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A home with a program that prints its version as Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize(
    ("text", "number"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8), ("11.0.2", 11), ("", 0)],
)
def test_major_versions(text: str, number: int) -> None:
    assert java.major(text) == number


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    a_java(tmp_path / "home", "21.0.2")
    a_java(tmp_path / "other", "17.0.1")
    found = java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other/bin")})
    assert (found.home, found.major) == (tmp_path / "home", 21)


def test_a_link_on_the_path_is_followed_to_javas_home(tmp_path: Path) -> None:
    program = a_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(program)
    assert java.find({"PATH": str(tmp_path / "bin")}).home == tmp_path / "jvm"


def test_a_java_without_a_release_file_is_run_for_its_version(tmp_path: Path) -> None:
    a_java(tmp_path / "home", "21.0.2", release=False)
    assert java.find({"JAVA_HOME": str(tmp_path / "home")}).version == "21.0.2"


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    a_java(tmp_path / "old", "1.8.0_402")
    a_java(tmp_path / "new", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new/bin")}
    assert java.find(environment).major == 17


def test_a_java_that_is_too_old_is_named_and_pypis_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_java(tmp_path / "old", "11.0.2")
    with caplog.at_level(logging.WARNING):
        found = java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    assert found == java.from_pypi()
    assert "JAVA_HOME is Java 11.0.2" in caplog.text


def test_without_any_java_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "from_pypi", lambda: None)
    with pytest.raises(java.StartError, match=r"pip install '.*\[spark\]'"):
        java.find({"PATH": ""})


def test_pypis_java_is_new_enough() -> None:
    found = java.from_pypi()
    assert found is not None
    assert found.major >= java.OLDEST
