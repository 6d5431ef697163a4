"""A state directory that not all of Spark can see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.streams import StreamsError
from ottla.spark.streams.run import sharing
from ottla.spark.streams.run.sharing import check_driver, check_workers, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_workers_that_do_not_see_it_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_local(spark)
    folder = tmp_path / "state"
    check_workers(spark, folder)
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(Path, "touch", lambda self: None)  # as if it were on another disk
    with pytest.raises(StreamsError, match=r"must be on a disk .* can't see it\. .*--state-dir"):
        check_workers(spark, folder)


def test_what_the_driver_of_spark_writes_must_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metadata").touch()
    check_driver(tmp_path / "metadata", tmp_path)
    monkeypatch.setattr(sharing, "SEEN_S_MAX", 0.2)
    with pytest.raises(StreamsError, match="not seen here"):
        check_driver(tmp_path / "other", tmp_path)
