"""The progress of a query according to its checkpoint."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.checkpoints import (
    QueryCheckpoint,
    distance,
    earliest_of,
    is_behind,
    read_json,
    write_json,
)


def batch(path: Path, number: int, offsets: str, *, done: bool) -> None:
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "metadata").touch()
    (path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}\n')
    if done:
        (path / "commits" / str(number)).write_text("v1\n{}\n")


def test_a_begun_batch_is_not_complete(tmp_path: Path) -> None:
    checkpoint = QueryCheckpoint(tmp_path)
    assert not checkpoint.exists
    assert checkpoint.position() == {}
    assert checkpoint.at_border
    batch(tmp_path, 9, '{"t":{"0":5}}', done=True)
    assert checkpoint.exists
    assert checkpoint.at_border
    batch(tmp_path, 10, '{"t":{"0":8,"1":2}}', done=False)
    assert not checkpoint.at_border
    assert checkpoint.position() == {"t": {"0": 5}}
    batch(tmp_path, 10, '{"t":{"0":8,"1":2}}\n{"u":{"0":1},"@clock":{"0":17}}', done=True)
    assert checkpoint.position() == {"t": {"0": 8, "1": 2}, "u": {"0": 1}}
    checkpoint.delete()
    assert not checkpoint.exists


def test_spark_gets_the_path_unescaped(tmp_path: Path) -> None:
    assert QueryCheckpoint(tmp_path / "50% of it").location == f"file://{tmp_path}/50% of it"


def test_positions_are_compared_partition_by_partition() -> None:
    here = {"t": {"0": 5, "1": 5}}
    assert not is_behind(here, here)
    assert is_behind({"t": {"0": 9, "1": 4}}, here)
    assert is_behind({"t": {"0": 9}}, here)
    assert distance({"t": {"0": 9, "1": 2}}, here) == 3
    assert earliest_of([{"t": {"0": 9, "1": 2}}, here]) == {"t": {"0": 5, "1": 2}}
    assert not is_behind({}, {})


def test_a_file_is_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    assert read_json(path) is None
    write_json(path, {"x": 1})
    write_json(path, {"x": 2})
    assert read_json(path) == {"x": 2}
    assert [path_left.name for path_left in path.parent.iterdir()] == ["b.json"]
