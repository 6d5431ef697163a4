"""Dead brokers stay visible for a while."""

from __future__ import annotations

from ottla.broker.recently_dead_brokers import SHOWN_MS, RecentlyDeadBrokers
from ottla.cluster.image import BrokerRegistration, MetadataImage


def image(*brokers: int) -> MetadataImage:
    return MetadataImage(
        brokers={broker_id: BrokerRegistration(broker_id, 1, (), None) for broker_id in brokers}
    )


def shown(recent: RecentlyDeadBrokers, now_ms: int) -> list[int]:
    return [broker.id for broker in recent.shown(now_ms)]


def test_a_dead_broker_stays_visible_for_some_seconds() -> None:
    recent = RecentlyDeadBrokers()
    recent.apply(image(1, 2), 0)
    assert shown(recent, 0) == []
    recent.apply(image(1), 100)
    assert shown(recent, 100) == [2]
    assert shown(recent, 99 + SHOWN_MS) == [2]
    assert shown(recent, 100 + SHOWN_MS) == []


def test_a_returned_broker_is_shown_as_registered() -> None:
    recent = RecentlyDeadBrokers()
    recent.apply(image(1, 2), 0)
    recent.apply(image(1), 100)
    recent.apply(image(1, 2), 200)
    assert shown(recent, 200) == []


def test_setting_the_clock_back_keeps_no_dead_broker_visible() -> None:
    recent = RecentlyDeadBrokers()
    recent.apply(image(1, 2), 1_000_000)
    recent.apply(image(1), 1_000_000)
    assert shown(recent, 5) == []
