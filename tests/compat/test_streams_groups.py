"""Kafka Streams with group.protocol=streams (KIP-1071): exactly once under kill -9."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat_brokers import Broker
from compat_confluent import make_topic, produce
from compat_streams_groups import SETTINGS, Follower, StreamsApp, compile_app, wait_until

from ottla.testing import LocalCluster

pytestmark = [pytest.mark.maven, pytest.mark.timeout(600)]

PARTITIONS = 4
LINES = 1200
ORDERS = 1200
CUSTOMERS = 17

Start = Callable[..., Broker]
Launch = Callable[..., StreamsApp]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_app(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def launch(classes: Path, tmp_path: Path) -> Iterator[Launch]:
    apps: list[StreamsApp] = []

    def start(kind: str, bootstrap: str, *settings: str) -> StreamsApp:
        apps.append(StreamsApp(classes, kind, bootstrap, tmp_path / f"state{len(apps)}", *settings))
        return apps[-1]

    yield start
    for app in apps:
        app.kill()


def start_broker(own_broker: Start, **settings: str) -> Broker:
    names = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    return own_broker(**{**names, **settings})


def line(number: int) -> str:
    return f"w{number % 7} w{number % 3} all"


def feed_lines(bootstrap: str, first: int, last: int) -> None:
    records = [{"key": f"k{number}", "value": line(number)} for number in range(first, last)]
    produce(bootstrap, "lines", records)


def counted(follower: Follower) -> dict[str, int]:
    """The last count of each word; each is larger than the one before, or it was counted twice."""
    counts: dict[str, int] = {}
    for message in follower.take():
        word, count = message.key().decode(), struct.unpack(">q", message.value())[0]
        assert count > counts.get(word, 0), f"{word} is {count} after {counts[word]}"
        counts[word] = count
    return counts


def expected_counts() -> dict[str, int]:
    return dict(Counter(word for number in range(LINES) for word in line(number).split()))


def share_all_tasks(first: StreamsApp, second: StreamsApp, count: int) -> bool:
    together = first.active() | second.active()
    return (
        bool(first.active() and second.active())
        and not first.active() & second.active()
        and len(together) == count
    )


def test_word_count_with_a_member_killed(own_broker: Start, launch: Launch) -> None:
    broker = start_broker(own_broker)
    make_topic(broker.bootstrap, "lines", PARTITIONS)
    make_topic(broker.bootstrap, "word-counts", PARTITIONS)
    follower = Follower(broker.bootstrap, "word-counts", PARTITIONS)
    one, two = (launch("word-count", broker.bootstrap) for _ in range(2))
    apps = [one, two]
    wait_until(lambda: share_all_tasks(one, two, 8), lambda: [app.lines for app in apps], apps)
    feed_lines(broker.bootstrap, 0, LINES // 2)
    wait_until(lambda: counted(follower), "a first result", apps)
    one.kill()
    feed_lines(broker.bootstrap, LINES // 2, LINES)
    wait_until(lambda: counted(follower) == expected_counts(), lambda: counted(follower), [two])
    wait_until(lambda: len(two.active()) == 8, lambda: two.lines, [two])
    two.close()
    assert "closed true" in two.lines
    follower.close()


def test_a_join_with_a_member_killed_and_standbys(own_broker: Start, launch: Launch) -> None:
    broker = start_broker(own_broker, group_streams_num_standby_replicas="1")
    for name in ("customers", "orders", "named-orders", "order-counts"):
        make_topic(broker.bootstrap, name, PARTITIONS)
    names = [{"key": f"c{number}", "value": f"name{number}"} for number in range(CUSTOMERS)]
    # Copartitioned with what Java's producer writes to the repartition topic.
    produce(broker.bootstrap, "customers", names, partitioner="murmur2_random")
    follower = Follower(broker.bootstrap, "named-orders", PARTITIONS)
    one, two = (launch("join", broker.bootstrap, "num.stream.threads=2") for _ in range(2))
    apps = [one, two]
    # The subtopology with the table and the counts has state: each task lies in both processes.
    wait_until(lambda: share_all_tasks(one, two, 8), lambda: [app.lines for app in apps], apps)
    stateful = {task for task in one.active() | two.active() if task in _with_state(apps)}
    assert len(stateful) == PARTITIONS
    wait_until(
        lambda: one.standby() | two.standby() == stateful, lambda: [a.lines for a in apps], apps
    )
    assert not one.standby() & one.active()
    orders = [{"key": f"o{number}", "value": f"c{number % CUSTOMERS}"} for number in range(ORDERS)]
    produce(broker.bootstrap, "orders", orders[: ORDERS // 2])
    wait_until(lambda: follower.take(), "a first result", apps)
    two.kill()
    produce(broker.bootstrap, "orders", orders[ORDERS // 2 :])
    wait_until(
        lambda: len(follower.take()) >= ORDERS, lambda: (len(follower.messages), one.lines), [one]
    )
    wait_until(lambda: len(one.active()) == 8, lambda: one.lines, [one])
    named = Counter(message.value().decode() for message in follower.take())
    assert named == Counter(f"o{number} name{number % CUSTOMERS}" for number in range(ORDERS))
    follower.close()


def _with_state(apps: list[StreamsApp]) -> set[str]:
    wait_until(
        lambda: len(apps[0].standby() | apps[1].standby()) == PARTITIONS,
        lambda: [app.lines for app in apps],
        apps,
    )
    return apps[0].standby() | apps[1].standby()


def test_word_count_goes_on_when_the_broker_is_killed(own_broker: Start, launch: Launch) -> None:
    """The group is loaded from the log: no member rejoins, and nothing is counted twice."""
    broker = start_broker(own_broker)
    make_topic(broker.bootstrap, "lines", PARTITIONS)
    make_topic(broker.bootstrap, "word-counts", PARTITIONS)
    follower = Follower(broker.bootstrap, "word-counts", PARTITIONS)
    one, two = (launch("word-count", broker.bootstrap) for _ in range(2))
    apps = [one, two]
    wait_until(lambda: share_all_tasks(one, two, 8), lambda: [app.lines for app in apps], apps)
    before = one.active(), two.active()
    feed_lines(broker.bootstrap, 0, LINES // 2)
    wait_until(lambda: counted(follower), "a first result", apps)
    broker.kill()
    broker.start()
    feed_lines(broker.bootstrap, LINES // 2, LINES)
    wait_until(lambda: counted(follower) == expected_counts(), lambda: counted(follower), apps)
    assert (one.active(), two.active()) == before
    follower.close()


def test_word_count_goes_on_when_the_coordinator_is_killed(launch: Launch) -> None:
    """Another broker of the cluster loads the group from its replica of the log."""
    settings = {**SETTINGS, "offsets.topic.num.partitions": "3"}
    with LocalCluster(brokers=3, config=settings) as cluster:
        bootstrap = cluster.bootstrap_servers
        for name in ("lines", "word-counts"):
            cluster.create_topic(name, PARTITIONS, replication_factor=3)
        follower = Follower(bootstrap, "word-counts", PARTITIONS)
        one, two = (launch("word-count", bootstrap, "replication.factor=3") for _ in range(2))
        apps = [one, two]
        wait_until(lambda: share_all_tasks(one, two, 8), lambda: [app.lines for app in apps], apps)
        feed_lines(bootstrap, 0, LINES // 2)
        wait_until(lambda: counted(follower), "a first result", apps)
        with cluster.admin() as admin:
            cluster.kill(admin.groups.coordinator("app-word-count"))
        feed_lines(bootstrap, LINES // 2, LINES)
        wait_until(lambda: counted(follower) == expected_counts(), lambda: counted(follower), apps)
        follower.close()
        for app in apps:
            app.kill()
