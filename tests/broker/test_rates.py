"""Rates and token buckets: Kafka's arithmetic."""

from __future__ import annotations

import pytest

from ottla.broker.rates import THROTTLE_MS_MAX, Rate, TokenBucket

T0 = 1_700_000_000_000


def rate(limit: float, **settings: int) -> Rate:
    return Rate(limit, **{"count": 11, "window_ms": 1000, **settings})


def test_usage_within_the_limit_is_not_throttled() -> None:
    meter = rate(100)
    assert meter.burst == 1000
    assert meter.charge(1000, T0) == 0  # of ten windows, which count as if they had passed


def test_the_throttle_time_brings_the_rate_back_to_its_limit() -> None:
    meter = rate(100)
    # 1500 bytes in 10 s are 150 a second, half as much again as allowed: 0.5 * 10 s.
    assert meter.charge(1500, T0) == 5000
    assert meter.throttle_ms(T0 + 15_000) == 0


@pytest.mark.parametrize(("value", "throttle_ms"), [(1000, 0), (1001, 10), (2000, 10_000)])
def test_throttle_time_grows_with_the_excess(value: float, throttle_ms: int) -> None:
    assert rate(100).charge(value, T0) == throttle_ms


def test_old_windows_are_forgotten() -> None:
    meter = rate(100)
    meter.charge(5000, T0)
    assert meter.throttle_ms(T0 + 10_999) > 0
    assert meter.throttle_ms(T0 + 11_000) == 0
    assert meter.is_quiet(T0 + 11_000)


# (ms, value, throttle time), as Rate and TokenBucket of Kafka 4.3.1 give them.
AS_KAFKA = [
    [
        (1000, 100, 0),
        (2000, 100, 0),
        (3000, 100, 0),
        (4000, 100, 0),
        (5000, 100, 0),
        (6000, 100, 0),
        (7000, 100, 0),
        (8000, 100, 0),
        (9000, 100, 0),
        (10000, 100, 0),
        (11000, 100, 1000),
        (12000, 100, 1000),
        (13000, 100, 1000),
        (14000, 100, 1000),
        (15000, 100, 1000),
        (16000, 100, 1000),
    ],
    [
        (736, 164, 0),
        (2221, 244, 0),
        (3101, 154, 0),
        (4569, 149, 0),
        (5919, 234, 0),
        (7119, 12, 0),
        (7827, 211, 1589),
        (9322, 262, 3714),
        (10783, 138, 5633),
        (11590, 279, 7616),
        (12932, 224, 8359),
        (14315, 151, 5854),
        (14533, 104, 6676),
        (15772, 100, 6297),
        (16348, 11, 6831),
        (16471, 273, 9438),
    ],
    [
        (679, 291, 0),
        (3214, 92, 0),
        (9032, 306, 0),
        (14678, 434, 0),
        (19003, 80, 0),
        (24676, 447, 0),
        (26009, 1195, 7214),
        (28521, 1089, 17592),
        (29797, 252, 19836),
        (32809, 45, 20147),
        (37003, 170, 16516),
        (37847, 52, 5754),
        (43055, 765, 74),
        (48281, 357, 2162),
        (53955, 525, 5570),
        (55851, 829, 6540),
    ],
]
BUCKET_AS_KAFKA = [
    (2272, 25, 0),
    (5092, 25, 0),
    (5621, 67, 0),
    (6075, 12, 0),
    (9712, 40, 0),
    (12826, 76, 3266),
    (13806, 61, 8386),
    (15837, 38, 10155),
    (16013, 54, 15379),
    (19800, 66, 18192),
    (21797, 16, 17795),
    (25005, 1, 14687),
    (25830, 78, 21662),
    (27236, 18, 22056),
]


@pytest.mark.parametrize("steps", AS_KAFKA)
def test_rates_are_kafkas(steps: list[tuple[int, int, int]]) -> None:
    meter = rate(100)
    assert [(at, value, meter.charge(value, T0 + at)) for at, value, _ in steps] == steps


def test_buckets_are_kafkas() -> None:
    bucket = TokenBucket(10, count=11, window_ms=1000)
    found = []
    for at, value, _ in BUCKET_AS_KAFKA:
        bucket.record(value, T0 + at)
        found.append((at, value, bucket.throttle_ms(T0 + at)))
    assert found == BUCKET_AS_KAFKA


def test_a_client_at_twice_its_limit_is_slowed_to_it() -> None:
    meter = rate(1000)
    now_ms = T0
    sent = 0
    while now_ms < T0 + 120_000:
        sent += 200
        now_ms += 100 + meter.charge(200, now_ms)
    assert sent / 120 == pytest.approx(1000, rel=0.12)


def test_bounded_and_unbounded_throttle_times() -> None:
    assert rate(1, throttle_ms_max=1000).charge(10**9, T0) == 1000
    assert rate(1e-6).charge(10**12, T0) == THROTTLE_MS_MAX


def test_a_rate_of_zero_allows_nothing() -> None:
    meter = rate(0, throttle_ms_max=1000)
    assert meter.throttle_ms(T0) == 0
    assert meter.charge(1, T0) == 1000


def test_undone_usage_is_not_counted() -> None:
    meter = rate(100)
    meter.record(500, T0)
    meter.record(9000, T0)
    meter.record(-9000, T0)
    assert meter.throttle_ms(T0) == 0
    assert not meter.is_quiet(T0)


def test_setting_the_clock_back_hardly_changes_a_rate() -> None:
    meter = rate(100)
    meter.charge(1500, T0)
    assert meter.charge(0, T0 - 3_600_000) == 5000


def test_a_bucket_starts_full_and_may_go_into_debt() -> None:
    bucket = TokenBucket(10, count=11, window_ms=1000)
    bucket.record(110, T0)
    assert bucket.throttle_ms(T0) == 0
    bucket.record(1, T0)
    assert bucket.throttle_ms(T0) == 100
    bucket.record(49, T0)
    assert bucket.throttle_ms(T0) == 5000
    assert bucket.throttle_ms(T0 + 4999) == 1
    assert bucket.throttle_ms(T0 + 5000) == 0
    assert not bucket.is_quiet(T0 + 15_999)
    assert bucket.is_quiet(T0 + 16_000)


@pytest.mark.parametrize("limit", [5e-324, 1e-300])
def test_a_tiny_rate_gives_a_long_wait(limit: float) -> None:
    bucket = TokenBucket(limit, count=11, window_ms=1_000)
    bucket.record(10, 0)
    assert bucket.throttle_ms(0) == THROTTLE_MS_MAX
