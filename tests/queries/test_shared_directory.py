"""A state directory that not all of Spark's machines share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.queries import shared_directory
from ottla.queries.shared_directory import (
    blind_executors,
    driver_problem,
    executor_problem,
    is_local,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_workers_that_do_not_see_the_directory_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    assert is_local(spark)
    assert blind_executors(spark, folder) == []
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(Path, "touch", lambda self: None)  # as if it were on another disk
    assert executor_problem(spark, folder) == ""  # no check if everything is one process
    monkeypatch.setattr(shared_directory, "is_local", lambda _: False)
    (host,) = blind_executors(spark, folder)
    trouble = executor_problem(spark, folder)
    assert f"{folder} must be on a disk" in trouble
    assert trouble.endswith(f"{host} can't see it. Set --state-dir to such a path")


def test_this_machine_must_see_the_files_of_sparks_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metadata").touch()
    assert driver_problem(tmp_path / "metadata", tmp_path) == ""
    monkeypatch.setattr(shared_directory, "SEEN_S_MAX", 0.2)
    assert "does not see" in driver_problem(tmp_path / "other", tmp_path)
