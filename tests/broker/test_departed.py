"""Brokers that are gone are shown for a while longer."""

from __future__ import annotations

from ottla.broker.departed import SHOWN_MS, Departed
from ottla.cluster.image import Broker, Image


def image(*brokers: int) -> Image:
    return Image(brokers={each: Broker(each, 1, (), None) for each in brokers})


def shown(departed: Departed, now_ms: int) -> list[int]:
    return [each.id for each in departed.shown(now_ms)]


def test_one_that_is_gone_is_shown_for_some_seconds() -> None:
    departed = Departed()
    departed.apply(image(1, 2), 0)
    assert shown(departed, 0) == []
    departed.apply(image(1), 100)
    assert shown(departed, 100) == [2]
    assert shown(departed, 99 + SHOWN_MS) == [2]
    assert shown(departed, 100 + SHOWN_MS) == []


def test_one_that_is_back_is_shown_as_it_is() -> None:
    departed = Departed()
    departed.apply(image(1, 2), 0)
    departed.apply(image(1), 100)
    departed.apply(image(1, 2), 200)
    assert shown(departed, 200) == []


def test_a_clock_that_is_set_back_shows_nobody_for_ever() -> None:
    departed = Departed()
    departed.apply(image(1, 2), 1_000_000)
    departed.apply(image(1), 1_000_000)
    assert shown(departed, 5) == []
