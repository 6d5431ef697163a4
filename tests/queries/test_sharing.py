"""A state directory that not all of Spark can see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.queries import sharing
from ottla.queries.sharing import (
    blind_workers,
    is_local,
    trouble_of_driver,
    trouble_of_workers,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_workers_that_do_not_see_it_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    assert is_local(spark)
    assert blind_workers(spark, folder) == []
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(Path, "touch", lambda self: None)  # as if it were on another disk
    assert trouble_of_workers(spark, folder) == ""  # nobody asks where all is one process
    monkeypatch.setattr(sharing, "is_local", lambda _: False)
    (host,) = blind_workers(spark, folder)
    trouble = trouble_of_workers(spark, folder)
    assert f"{folder} must be on a disk" in trouble
    assert trouble.endswith(f"{host} can't see it. Give such a place: --state-dir")


def test_what_the_driver_of_spark_writes_must_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metadata").touch()
    assert trouble_of_driver(tmp_path / "metadata", tmp_path) == ""
    monkeypatch.setattr(sharing, "SEEN_S_MAX", 0.2)
    assert "not seen here" in trouble_of_driver(tmp_path / "other", tmp_path)
