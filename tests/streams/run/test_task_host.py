"""Tasks in their host: stores in memory and in files, in this process and in another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from streams_by_hand import Spark, counted, rows_in, rows_of, sent

from ottla.clock import SystemClock
from ottla.engine.failures import StreamsError
from ottla.engine.host_process import HostDisconnect
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.state_file import CellChange, StateFile
from ottla.engine.task_files import TaskFiles
from ottla.engine.task_host import TaskHost
from ottla.engine.task_server import TaskClient, connect_to_task_host
from ottla.spark.chunk_processor import pickled


def test_a_task_keeps_its_state_from_batch_to_batch(tmp_path: Path) -> None:
    home, spark = TaskHost(counted()), Spark(tmp_path)
    assert sent(spark.batch(home, 0, rows_in("a", "b", "a"))) == {"a": 2, "b": 1}
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 3}
    assert sent(spark.batch(home, 1, rows_in("a"))) == {"a": 1}, "another task has its own stores"
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 4}
    assert home.loads == 0


def test_a_new_task_reads_its_files(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    spark.batch(TaskHost(counted()), 0, rows_in("a", "b", "a"))
    elsewhere = TaskHost(counted())
    assert sent(spark.batch(elsewhere, 0, rows_in("a"))) == {"a": 3}
    assert elsewhere.loads == 1


@pytest.mark.parametrize("moved", [False, True], ids=["here", "elsewhere"])
def test_an_uncommitted_batch_reruns_from_the_state_before_it(tmp_path: Path, moved: bool) -> None:
    home, spark = TaskHost(counted()), Spark(tmp_path)
    assert sent(spark.batch(home, 0, rows_in("a"), kept=False)) == {"a": 1}
    for count in range(1, 20):
        again = TaskHost(counted()) if moved else home
        assert sent(spark.batch(again, 0, rows_in("a"))) == {"a": count}
        assert sent(spark.batch(home, 0, rows_in("a"), kept=False)) == {"a": count + 1}
    assert home.loads > 10


def test_a_processor_that_a_failed_attempt_has_changed_is_created_again(tmp_path: Path) -> None:
    """Also the state outside of its stores."""
    home, spark = TaskHost(counted()), Spark(tmp_path)
    spark.batch(home, 0, rows_in("a"))
    assert sent(spark.batch(home, 0, rows_in("count me"), kept=False)) == {"seen": 1}
    assert sent(spark.batch(home, 0, rows_in("count me"))) == {"seen": 1}
    assert sent(spark.batch(home, 0, rows_in("count me"))) == {"seen": 2}


def test_a_partially_read_state_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = Spark(tmp_path)
    spark.batch(TaskHost(counted()), 0, rows_in("a", "a", *map(str, range(99))))
    home, read = TaskHost(counted()), TaskFiles.read

    def halfway(self: TaskFiles, files: Iterable[StateFile]) -> Iterator[CellChange]:
        for number, cell in enumerate(read(self, files)):
            if number == 50:
                raise OSError("Input/output error")
            yield cell

    with monkeypatch.context() as patch:
        patch.setattr(TaskFiles, "read", halfway)
        with pytest.raises(OSError, match="Input/output"):
            spark.batch(home, 0, rows_in("a"))
    words = ("a", *map(str, range(99)))
    assert sent(spark.batch(home, 0, rows_in(*words))) == {
        "a": 3,
        **{str(number): 2 for number in range(99)},
    }


def test_an_earlier_batch_is_refused(tmp_path: Path) -> None:
    """As from a replaced driver that does not know it."""
    home = TaskHost(counted())
    for batch in range(3):
        home.run(str(tmp_path), batch, 0, [pack_input_rows(rows_in("a"))])
    with pytest.raises(StreamsError, match=r"includes batch 2, and batch 1 is to run\. Another"):
        TaskHost(counted()).run(str(tmp_path), 1, 0, [pack_input_rows(rows_in("a"))])


def test_a_host_that_missed_batches_reads_their_files(tmp_path: Path) -> None:
    one, other, spark = TaskHost(counted()), TaskHost(counted()), Spark(tmp_path)
    for count, home in enumerate((one, other, one, one, other, one), 1):
        assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": count}
    assert (one.loads, other.loads) == (2, 2)


def test_the_last_writer_of_a_batch_counts(tmp_path: Path) -> None:
    """Their files have the same name; here they differ, as with a clock they might."""
    one, other, spark = TaskHost(counted()), TaskHost(counted()), Spark(tmp_path)
    spark.batch(one, 0, rows_in("a"), kept=False)
    spark.batch(other, 0, rows_in("b"))
    assert sent(spark.batch(one, 0, rows_in("a", "b"))) == {"a": 1, "b": 2}


def test_a_state_that_could_not_be_written_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, spark = TaskHost(counted()), Spark(tmp_path)
    spark.batch(home, 0, rows_in("a"))

    def full(_: int) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            spark.batch(home, 0, rows_in("a"))
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 2}


def test_incomplete_state_is_reported(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    for words in (["a"] * 9 + [str(n) for n in range(999)], ["a"], ["b"]):
        spark.batch(TaskHost(counted()), 0, rows_in(*words))
    first = min((tmp_path / "0").iterdir())
    assert first.name.startswith("0-0-")
    kept = first.read_bytes()
    first.write_bytes(kept[:-7])
    with pytest.raises(StreamsError, match=r"0-0-.*: .*Delete the application's state directory"):
        spark.batch(TaskHost(counted()), 0, rows_in("a"))
    first.unlink()
    with pytest.raises(StreamsError, match=r"no file has batch 0\. Delete"):
        spark.batch(TaskHost(counted()), 0, rows_in("a"))


def test_a_tick_wakes_started_tasks(tmp_path: Path) -> None:
    home = TaskHost(counted())
    assert home.run(str(tmp_path), 0, 0, [], 5000) == []
    assert not (tmp_path / "0").exists()
    Spark(tmp_path).batch(home, 1, rows_in("tick"))
    assert sent(rows_of(home.run(str(tmp_path), 1, 1, [], 6000))) == {}, "nothing is due yet"
    later = SystemClock().now_ms() + 60_000
    assert sent(rows_of(home.run(str(tmp_path), 2, 1, [], later))) == {"tock": 1}
    assert sent(rows_of(home.run(str(tmp_path), 2, 1, [], later))) == {"tock": 1}, "again"
    assert sent(rows_of(home.run(str(tmp_path), 3, 1, [], later))) == {}
    names = {path.name[:3] for path in (tmp_path / "1").iterdir()}
    assert names == {"0-0", "0-2"}, "nothing has changed in the others"


def test_changes_of_a_store_go_to_its_changelog_with_the_time_of_the_record(
    tmp_path: Path,
) -> None:
    done = Spark(tmp_path).batch(TaskHost(counted()), 3, rows_in("a"))
    (row,) = [row for row in done if row["topic"] == "app-counts-changelog"]
    assert row["key"] == b"a"
    assert row["value"] == (1).to_bytes(8, "big")
    assert row["timestamp"] == 1000
    assert row["partition"] == 3


def test_a_processors_error_is_reported_with_its_cause_and_location(tmp_path: Path) -> None:
    home, spark = TaskHost(counted()), Spark(tmp_path)
    spark.batch(home, 0, rows_in("a"))
    with pytest.raises(StreamsError, match=r"taskId=0_0.*offset=1.*ValueError: no poison"):
        spark.batch(home, 0, rows_in("a", "poison"))
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 2}


@pytest.fixture
def task_client() -> Iterator[TaskClient]:
    found = connect_to_task_host(f"test-{os.urandom(4).hex()}", pickled(counted()))
    yield found
    found.end()


def test_a_separate_process_keeps_the_stores(task_client: TaskClient, tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    assert sent(spark.batch(task_client, 0, rows_in("a", "a"))) == {"a": 2}
    assert sent(spark.batch(task_client, 0, rows_in("a"))) == {"a": 3}
    with pytest.raises(StreamsError, match="ValueError: no poison"):
        spark.batch(task_client, 0, rows_in("poison"))
    assert sent(spark.batch(task_client, 0, rows_in("a"))) == {"a": 4}


def test_the_next_worker_finds_the_process_unless_its_plan_differs(
    tmp_path: Path,
) -> None:
    name, spark = f"test-{os.urandom(4).hex()}", Spark(tmp_path)
    plan = pickled(counted())
    processes = set()
    for expected in (1, 2, 3):
        home = connect_to_task_host(name, plan)
        processes.add(home.line.peer)
        assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": expected}
        home.close()
    assert len(processes) == 1
    other = connect_to_task_host(name, pickled(counted("other")))
    assert other.line.peer not in processes
    assert sent(spark.batch(other, 0, rows_in("a"))) == {"a": 4}
    other.end()


def test_a_silent_worker_does_not_block_the_next_one(tmp_path: Path) -> None:
    name, plan = f"test-{os.urandom(4).hex()}", pickled(counted())
    silent, spark = connect_to_task_host(name, plan), Spark(tmp_path)
    assert sent(spark.batch(silent, 0, rows_in("a"))) == {"a": 1}
    next_one = connect_to_task_host(name, plan)
    assert sent(spark.batch(next_one, 0, rows_in("a"))) == {"a": 2}
    with pytest.raises(HostDisconnect):
        spark.batch(silent, 0, rows_in("a"))
    silent.close()
    next_one.end()


def test_a_killed_process_is_replaced_without_losing_state(tmp_path: Path) -> None:
    name, plan, spark = f"test-{os.urandom(4).hex()}", pickled(counted()), Spark(tmp_path)
    home = connect_to_task_host(name, plan)
    spark.batch(home, 0, rows_in("a", "b", "a"))
    os.kill(home.line.peer, signal.SIGKILL)
    with pytest.raises(HostDisconnect):
        spark.batch(home, 0, rows_in("a"))
    home.close()
    again = connect_to_task_host(name, plan)
    assert sent(spark.batch(again, 0, rows_in("a"))) == {"a": 3}
    again.end()


def test_a_dead_process_is_reported(task_client: TaskClient, tmp_path: Path) -> None:
    task_client.end()
    with pytest.raises(HostDisconnect, match="Connection"):
        task_client.run(str(tmp_path), 0, 0, [])
