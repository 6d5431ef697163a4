"""Tasks at home: their stores in memory, their pages with Spark; in this process and in another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from streams_by_hand import Spark, counted, rows_in, sent

from ottla.spark.running.hosts import HungUp
from ottla.spark.streams.failures import StreamsError
from ottla.spark.streams.run.home import Home
from ottla.spark.streams.run.hosting import Distant, home_of
from ottla.spark.work import pickled


def test_a_task_goes_on_from_batch_to_batch() -> None:
    home, spark = Home(counted()), Spark()
    assert sent(spark.batch(home, 0, rows_in("a", "b", "a"))) == {"a": 2, "b": 1}
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 3}
    assert sent(spark.batch(home, 1, rows_in("a"))) == {"a": 1}, "another task has its own stores"


def test_a_task_that_is_new_here_reads_its_pages() -> None:
    spark = Spark()
    spark.batch(Home(counted()), 0, rows_in("a", "b", "a"))
    elsewhere = Home(counted())
    assert sent(spark.batch(elsewhere, 0, rows_in("a"))) == {"a": 3}
    assert spark.loads == 1


def test_a_batch_that_was_not_kept_runs_again_from_what_was() -> None:
    home, spark = Home(counted()), Spark()
    spark.batch(home, 0, rows_in("a"))
    assert sent(spark.batch(home, 0, rows_in("a"), kept=False)) == {"a": 2}
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 2}, "the first try does not count"
    assert spark.loads == 1


def test_changes_of_a_store_go_to_its_changelog_with_the_time_of_the_record() -> None:
    done = Spark().batch(Home(counted()), 3, rows_in("a"))
    (row,) = [each for each in done if each["topic"] == "app-counts-changelog"]
    assert row["key"] == b"a"
    assert row["value"] == (1).to_bytes(8, "big")
    assert row["timestamp"] == 1000
    assert row["partition"] == 3


def test_what_a_processor_raises_is_told_with_its_cause_and_its_place() -> None:
    home, spark = Home(counted()), Spark()
    spark.batch(home, 0, rows_in("a"))
    with pytest.raises(StreamsError, match=r"taskId=0_0.*offset=1.*ValueError: no poison"):
        spark.batch(home, 0, rows_in("a", "poison"))
    assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": 2}


@pytest.fixture
def distant() -> Iterator[Distant]:
    found = home_of(f"test-{os.urandom(4).hex()}", pickled(counted()))
    assert isinstance(found, Distant)
    yield found
    found.end()


def test_a_process_of_its_own_keeps_the_stores(distant: Distant) -> None:
    spark = Spark()
    assert sent(spark.batch(distant, 0, rows_in("a", "a"))) == {"a": 2}
    assert sent(spark.batch(distant, 0, rows_in("a"))) == {"a": 3}
    assert spark.loads == 0
    with pytest.raises(StreamsError, match="ValueError: no poison"):
        spark.batch(distant, 0, rows_in("poison"))
    assert sent(spark.batch(distant, 0, rows_in("a"))) == {"a": 4}
    assert spark.loads == 1


def test_the_next_worker_finds_the_process_and_one_with_another_plan_has_a_new_one() -> None:
    name = f"test-{os.urandom(4).hex()}"
    spark = Spark()
    plan = pickled(counted())
    for expected in (1, 2, 3):
        home = home_of(name, plan)
        assert isinstance(home, Distant)
        assert sent(spark.batch(home, 0, rows_in("a"))) == {"a": expected}
        home.close()
    assert spark.loads == 0
    other = home_of(name, pickled(counted("other")))
    assert isinstance(other, Distant)
    assert sent(spark.batch(other, 0, rows_in("a"))) == {"a": 4}
    assert spark.loads == 1
    other.end()


def test_a_worker_that_says_nothing_does_not_keep_the_next_one_waiting() -> None:
    name, plan = f"test-{os.urandom(4).hex()}", pickled(counted())
    silent, spark = home_of(name, plan), Spark()
    assert sent(spark.batch(silent, 0, rows_in("a"))) == {"a": 1}
    next_one = home_of(name, plan)
    assert isinstance(next_one, Distant)
    assert sent(spark.batch(next_one, 0, rows_in("a"))) == {"a": 2}
    with pytest.raises(HungUp):
        silent.knows(0, None)
    assert isinstance(silent, Distant)
    silent.close()
    next_one.end()


def test_a_process_that_was_killed_is_replaced_and_nothing_is_lost() -> None:
    name, plan, spark = f"test-{os.urandom(4).hex()}", pickled(counted()), Spark()
    home = home_of(name, plan)
    assert isinstance(home, Distant)
    spark.batch(home, 0, rows_in("a", "b", "a"))
    os.kill(home.line.peer, signal.SIGKILL)
    with pytest.raises(HungUp):
        spark.batch(home, 0, rows_in("a"))
    home.close()
    again = home_of(name, plan)
    assert isinstance(again, Distant)
    assert sent(spark.batch(again, 0, rows_in("a"))) == {"a": 3}
    assert spark.loads == 1
    again.end()


def test_a_process_that_is_gone_is_said_to_be(distant: Distant) -> None:
    distant.end()
    with pytest.raises(HungUp, match="Connection"):
        distant.knows(0, None)
