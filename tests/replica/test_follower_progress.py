"""A leader's rules about followers; time is an argument."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.replica.follower_progress import UNKNOWN, FollowerProgress

LAG_MS = 30_000
NOW_MS = 1_000_000
LIVE = {1: 11, 2: 12, 3: 13}


def followers(
    isr: tuple[int, ...] = (1, 2, 3), epoch_start: int = 0, live: dict[int, int] | None = None
) -> FollowerProgress:
    return FollowerProgress(
        1,
        epoch_start=epoch_start,
        isr=isr,
        replicas=(1, 2, 3),
        live=LIVE if live is None else live,
        lag_max_ms=LAG_MS,
        now_ms=NOW_MS,
    )


def fetch(known: FollowerProgress, broker: int, offset: int, leader_end: int, now_ms: int) -> None:
    progress = known.get(broker)
    assert progress is not None
    progress.broker_epoch = LIVE[broker]
    progress.fetched(offset, leader_end, now_ms)


def test_the_high_watermark_is_unknown_until_all_followers_have_fetched() -> None:
    known = followers()
    assert known.high_watermark(10, NOW_MS) == UNKNOWN
    fetch(known, 2, 7, 10, NOW_MS)
    assert known.high_watermark(10, NOW_MS) == UNKNOWN
    fetch(known, 3, 5, 10, NOW_MS)
    assert known.high_watermark(10, NOW_MS) == 5


def test_a_follower_being_added_counts() -> None:
    known = followers(isr=(1, 2))
    fetch(known, 2, 10, 10, NOW_MS)
    fetch(known, 3, 6, 10, NOW_MS)
    later_ms = NOW_MS + 2 * LAG_MS
    assert known.high_watermark(10, later_ms) == 10
    known.begin((1, 2, 3))
    assert known.high_watermark(10, later_ms) == 6
    known.give_up()
    assert known.high_watermark(10, later_ms) == 10


def test_a_follower_being_removed_counts() -> None:
    known = followers()
    fetch(known, 2, 10, 10, NOW_MS)
    fetch(known, 3, 6, 10, NOW_MS)
    known.begin((1, 2))
    assert known.high_watermark(10, NOW_MS) == 6
    known.commit((1, 2), (1, 2, 3), NOW_MS, settled=True)
    assert known.high_watermark(10, NOW_MS + 2 * LAG_MS) == 10


def test_only_one_isr_change_is_in_flight() -> None:
    known = followers(isr=(1,))
    fetch(known, 2, 5, 5, NOW_MS)
    fetch(known, 3, 5, 5, NOW_MS)
    assert known.joining(2, 5) == (1, 2)
    known.begin((1, 2))
    assert known.joining(3, 5) is None
    assert known.lagging(99, NOW_MS + 2 * LAG_MS) is None
    known.commit((1, 2), (1, 2, 3), NOW_MS, settled=False)  # the same state again
    assert known.pending == (1, 2)
    known.commit((1, 2), (1, 2, 3), NOW_MS, settled=True)
    assert known.joining(3, 5) == (1, 2, 3)


def test_a_follower_that_lags_too_long_leaves_the_isr() -> None:
    known = followers()
    fetch(known, 2, 10, 10, NOW_MS)
    fetch(known, 3, 4, 10, NOW_MS)
    assert known.lagging(10, NOW_MS + LAG_MS) is None
    late_ms = NOW_MS + LAG_MS + 1
    assert known.lagging(10, late_ms) == (1, 2)  # 2 is at the end, however long ago it fetched
    assert known.lagging(11, late_ms) == (1,)


def test_a_follower_with_everything_of_its_last_fetch_keeps_up() -> None:
    """Under load it never reaches the end; it is caught up as of its last fetch."""
    known = followers()
    now_ms, end = NOW_MS, 0
    for _ in range(100):
        fetch(known, 2, end, end + 10, now_ms)
        fetch(known, 3, end, end + 10, now_ms)
        end, now_ms = end + 10, now_ms + 1000
        assert known.lagging(end + 10, now_ms) is None


def test_a_follower_at_the_end_stays_caught_up_until_the_next_append() -> None:
    known = followers()
    fetch(known, 2, 10, 10, NOW_MS)
    fetch(known, 3, 10, 10, NOW_MS)
    hour_ms = NOW_MS + 3_600_000
    known.left_behind(10, hour_ms)
    assert known.lagging(11, hour_ms + LAG_MS) is None
    assert known.lagging(11, hour_ms + LAG_MS + 1) == (1,)


def test_setting_the_clock_back_keeps_no_follower_caught_up_for_longer() -> None:
    known = followers()
    for broker in (2, 3):
        fetch(known, broker, 9, 9, NOW_MS)
    back_ms = NOW_MS - 3_600_000
    assert known.lagging(10, back_ms) is None
    assert known.lagging(10, back_ms + LAG_MS + 1) == (1,)


def test_a_follower_that_falls_behind_steadily_leaves_the_isr() -> None:
    known = followers()
    now_ms, end, there = NOW_MS, 0, 0
    while known.lagging(end, now_ms) is None:
        end, there, now_ms = end + 10, there + 9, now_ms + 1000
        fetch(known, 2, there, end, now_ms)
        fetch(known, 3, end, end, now_ms)
        assert now_ms < NOW_MS + 2 * LAG_MS
    assert known.lagging(end, now_ms) == (1, 3)


def test_only_the_registered_incarnation_joins_the_isr() -> None:
    live = dict(LIVE)
    known = followers(isr=(1,), live=live)
    fetch(known, 2, 5, 5, NOW_MS)
    assert known.joining(2, 5) == (1, 2)
    assert known.joining(2, 6) is None
    del live[2]
    assert known.joining(2, 5) is None
    live[2] = 99
    assert known.joining(2, 5) is None


def test_the_low_watermark_ignores_dead_replicas() -> None:
    live = dict(LIVE)
    known = followers(live=live)
    assert known.low_watermark(5) == UNKNOWN
    for broker, start in ((2, 5), (3, 2)):
        progress = known.get(broker)
        assert progress is not None
        progress.start_offset = start
    assert known.low_watermark(5) == 2
    del live[3]
    assert known.low_watermark(5) == 5


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("fetch"), st.sampled_from((2, 3)), st.integers(0, 4)),
        st.tuples(st.just("wait"), st.integers(1, 2), st.just(0)),
        st.tuples(st.just("shrink"), st.just(0), st.just(0)),
        st.tuples(st.just("answer"), st.booleans(), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_committed_records_are_on_every_possible_isr(
    steps: list[tuple[str, int, int]],
) -> None:
    """The invariant on which elections rest, whatever the store does with our changes.

    An ISR in flight may be in the store already: any of its members can be elected.
    """
    known = followers()
    has = {2: 0, 3: 0}  # what followers really have: at least what they reported
    end = committed = 0
    now_ms = NOW_MS
    for step, number, more in steps:
        if step == "append":
            end += number
        elif step == "wait":
            now_ms += number * LAG_MS * 2 // 3
        elif step == "fetch":
            fetch(known, number, has[number], end, now_ms)
            joined = known.joining(number, committed)
            if joined is not None:
                known.begin(joined)
            has[number] = min(end, has[number] + more)  # the answer
        elif step == "shrink":
            smaller = known.lagging(end, now_ms)
            if smaller is not None:
                known.begin(smaller)
        elif known.pending is not None:
            if number:
                known.commit(known.pending, (1, 2, 3), now_ms, settled=True)
            else:
                known.give_up()
        committed = max(committed, known.high_watermark(end, now_ms))
        assert committed <= end
        for maybe in (known.isr, known.pending or ()):
            for broker in maybe:
                assert broker == 1 or has[broker] >= committed
