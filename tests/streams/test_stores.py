"""Stores over cells: order, ranges, duplicates and retention."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.engine.cells import DictCells
from ottla.engine.stores import (
    KeyValueStore,
    SessionStore,
    StoreKind,
    StoreSpec,
    WindowStore,
    after,
    key_value_store,
    session_store,
    window_store,
)
from ottla.streams import String, Window, Windowed


def key_value() -> KeyValueStore[str, str]:
    return KeyValueStore(spec(StoreKind.KEY_VALUE), DictCells())


def spec(kind: StoreKind, **more: Any) -> StoreSpec:
    return StoreSpec("store", kind, String(), String(), **more)


def windows(cells: DictCells | None = None, **more: Any) -> WindowStore[str, str]:
    settings = {"retention_ms": 1_000, "window_ms": 10, **more}
    return WindowStore(spec(StoreKind.WINDOW, **settings), cells or DictCells())


def sessions(cells: DictCells | None = None) -> SessionStore[str, str]:
    return SessionStore(spec(StoreKind.SESSION, retention_ms=1_000), cells or DictCells())


def test_dict_cells_are_a_sorted_map() -> None:
    choose = random.Random(7)
    cells, model = DictCells(), dict[bytes, bytes]()
    for _ in range(3_000):
        key = bytes(choose.choices(b"abc", k=choose.randint(0, 4)))
        if choose.random() < 0.3:
            cells.put(key, None)
            model.pop(key, None)
        else:
            value = bytes([choose.randrange(256)])
            cells.put(key, value)
            model[key] = value
        if choose.random() < 0.1:
            low, high = sorted((key, bytes(choose.choices(b"abc", k=2))))
            expected = sorted(item for item in model.items() if low <= item[0] < high)
            assert list(cells.range(low, high)) == expected
            assert list(cells.range(None, None)) == sorted(model.items())
    assert cells.size() == len(model)


def test_many_keys_stay_sorted_while_they_come_and_go() -> None:
    choose = random.Random(8)
    cells, model = DictCells(), set[bytes]()
    list(cells.range(None, None))
    for number in range(20_000):
        key = choose.randrange(8_000).to_bytes(2)
        if number % 4_000 > 2_500:
            cells.put(key, None)
            model.discard(key)
        else:
            cells.put(key, b"x")
            model.add(key)
        if number % 500 == 0:
            low = choose.randrange(8_000).to_bytes(2)
            high = choose.randrange(8_000).to_bytes(2)
            expected = sorted(key for key in model if low <= key < high)
            assert [key for key, _ in cells.range(low, high)] == expected
    assert [key for key, _ in cells.range(None, None)] == sorted(model)


def test_ranges_of_key_value_stores_include_both_ends() -> None:
    store = key_value()
    store.put_all([("b", "2"), ("a", "1"), ("c", "3"), ("ba", "2a")])
    assert list(store.range("a", "b")) == [("a", "1"), ("b", "2")]
    assert list(store.range("b", None)) == [("b", "2"), ("ba", "2a"), ("c", "3")]
    assert list(store.range(None, "a")) == [("a", "1")]
    assert next(iter(store.all(reverse=True))) == ("c", "3")
    assert list(store.prefix_scan(b"b")) == [("b", "2"), ("ba", "2a")]
    assert store.put_if_absent("a", "9") == "1"
    assert store.put_if_absent("z", "9") is None
    assert store.delete("z") == "9"
    assert store.delete("z") is None
    assert store.approximate_num_entries() == 4
    with pytest.raises(ValueError, match="key cannot be null"):
        store.get(None)  # type: ignore[arg-type]


def test_a_store_may_be_changed_while_it_is_read() -> None:
    store = key_value()
    store.put_all([(str(number), "x") for number in range(9)])
    for key, _ in store.all():
        store.delete(key)
        store.put(f"{key}+", "y")
    assert all(value == "y" for _, value in store.all())


def test_window_stores_distinguish_keys_with_a_common_prefix() -> None:
    store = windows()
    for key in ("a", "ab", "a\x00", "b"):
        store.put(key, f"{key}5", 5)
        store.put(key, f"{key}7", 7)
    assert list(store.fetch("a")) == [(5, "a5"), (7, "a7")]
    assert list(store.fetch("a", 6, 7)) == [(7, "a7")]
    assert list(store.fetch("a", reverse=True)) == [(7, "a7"), (5, "a5")]
    assert store.get("ab", 7) == "ab7"
    assert store.get("ab", 6) is None
    assert {windowed.key for windowed, _ in store.fetch_range("a", "ab")} == {"a", "a\x00", "ab"}
    found = [windowed for windowed, _ in store.fetch_range("b", None, 7, 9)]
    assert found == [Windowed("b", Window(7, 17))]
    assert len(list(store.all())) == 8
    store.put("b", None, 7)
    assert list(store.fetch("b")) == [(5, "b5")]


def test_window_stores_may_keep_duplicates() -> None:
    store = windows(duplicates=True)
    store.put("a", "1", 5)
    store.put("a", "2", 5)
    store.put("a", None, 5)  # Kafka: no deletion in such a store
    assert list(store.fetch("a", 5, 5)) == [(5, "1"), (5, "2")]


def test_expired_windows_are_neither_returned_nor_accepted() -> None:
    cells = DictCells()
    store = windows(cells)
    store.put("a", "old", 100)
    store.put("a", "new", 1_100)
    assert list(store.fetch("a")) == [(1_100, "new")]
    assert store.get("a", 100) is None
    store.put("a", "late", 100)
    store.put("a", "just", 101)
    assert list(store.fetch("a")) == [(101, "just"), (1_100, "new")]


@pytest.mark.parametrize("restarted", [False, True])
def test_old_segments_are_removed_even_after_a_restart(restarted: bool) -> None:
    cells = DictCells()
    store = windows(cells)
    for start in range(0, 300_000, 1_000):
        store.put("a", str(start), start)
    if restarted:
        saved, store = store.saved(), windows(cells)
        store.restore(saved)
        assert list(store.fetch("a")) == [(299_000, "299000")]
    store.put("a", "x", 400_000)
    assert [start for start, _ in store.fetch("a")] == [400_000]
    assert cells.size() <= 61  # what lies in the same segment as the retention's end stays


def test_session_stores_find_overlapping_sessions() -> None:
    store = sessions()
    for start, end in ((0, 5), (10, 20), (30, 30)):
        store.put(Windowed("a", Window(start, end)), f"{start}-{end}")
    store.put(Windowed("ab", Window(10, 20)), "other")
    assert [value for _, value in store.find_sessions("a", 5, 10)] == ["0-5", "10-20"]
    assert [value for _, value in store.find_sessions("a", 6, 29)] == ["10-20"]
    assert [value for _, value in store.fetch("a", reverse=True)] == ["30-30", "10-20", "0-5"]
    assert store.fetch_session("a", 10, 20) == "10-20"
    store.remove(Windowed("a", Window(10, 20)))
    assert store.fetch_session("a", 10, 20) is None
    assert len(list(store.all())) == 3
    store.put(Windowed("a", Window(1_010, 1_020)), "late")
    assert [value for _, value in store.fetch("a")] == ["30-30", "late"]
    saved, again = store.saved(), sessions(store.cells)  # type: ignore[arg-type]
    again.restore(saved)
    assert [value for _, value in again.fetch("a")] == ["30-30", "late"]


def test_stores_for_processors_are_made_by_name() -> None:
    kept = key_value_store("kept", String(), String(), timestamped=True)
    assert kept.kind is StoreKind.TIMESTAMPED_KEY_VALUE
    timed = window_store("timed", String(), String(), window_ms=10, retention_ms=100)
    assert isinstance(timed.open(DictCells()), WindowStore)
    visits = session_store("visits", String(), String(), retention_ms=100)
    assert isinstance(visits.open(DictCells()), SessionStore)
    with pytest.raises(ValueError, match="must be no smaller than its window"):
        window_store("short", String(), String(), window_ms=10, retention_ms=9)


def test_windowed_stores_need_their_settings() -> None:
    with pytest.raises(ValueError, match="needs retention_ms and window_ms"):
        WindowStore(spec(StoreKind.WINDOW), DictCells())
    with pytest.raises(ValueError, match="needs retention_ms"):
        SessionStore(spec(StoreKind.SESSION), DictCells())


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None), (b"", None)]
)
def test_stores_scan_by_prefix(prefix: bytes, end: bytes | None) -> None:
    assert after(prefix) == end
