"""The embedded store's file, torn, damaged, outgrown and on a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.journal import Journal, JournalDisk
from ottla.cluster.store import Create, KeyChange, MetaStoreError, Put, VersionedValue

State = dict[str, VersionedValue]

KEYS = st.sampled_from(["/a", "/b", "/a/c", "/brokers/topics/t"])
CHANGES = st.builds(
    KeyChange,
    KEYS,
    st.none() | st.builds(VersionedValue, st.binary(max_size=40), st.integers(0, 9)),
)
COMMITS = st.lists(st.lists(CHANGES, min_size=1, max_size=4), max_size=8)


def after(state: State, changes: list[KeyChange]) -> State:
    state = dict(state)
    for change in changes:
        state.pop(change.key, None)
        if change.entry is not None:
            state[change.key] = change.entry
    return state


def write(path: Path, commits: list[list[KeyChange]]) -> tuple[list[State], list[int]]:
    """Every state of the journal, and the file's size at each of them."""
    path.unlink(missing_ok=True)
    journal = Journal(path, sync=False)
    states: list[State] = [{}]
    sizes = [path.stat().st_size]
    for commit in commits:
        journal.append(commit)
        states.append(after(states[-1], commit))
        sizes.append(path.stat().st_size)
    journal.close()
    return states, sizes


def read(path: Path) -> State:
    journal = Journal(path, sync=False)
    journal.close()
    return journal.entries


@given(commits=COMMITS, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_journal_torn_at_any_byte_keeps_the_commits_before(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[KeyChange]], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "torn.journal"
    states, sizes = write(path, commits)
    cut = data.draw(st.integers(0, sizes[-1]))
    os.truncate(path, cut)
    whole = max((index for index, size in enumerate(sizes) if size <= cut), default=0)
    assert read(path) == states[whole]
    assert read(path) == states[whole]  # and the truncation lasts
    assert path.stat().st_size == sizes[whole]


@given(commits=COMMITS.filter(len), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_journal_with_a_flipped_byte_opens_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[KeyChange]], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.journal"
    _, sizes = write(path, commits)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    if position < sizes[0]:
        with pytest.raises(MetaStoreError, match="is not a metadata journal"):
            read(path)
        return
    hit = next(index for index, size in enumerate(sizes) if position < size)
    found = read(path)
    undamaged = [commit for index, commit in enumerate(commits, 1) if index != hit]
    every_later_one_kept: State = {}
    for commit in undamaged:
        every_later_one_kept = after(every_later_one_kept, commit)
    only_those_before: State = {}
    for commit in commits[: hit - 1]:
        only_those_before = after(only_those_before, commit)
    assert found in (every_later_one_kept, only_those_before)


def test_only_a_damaged_commit_is_lost_and_a_copy_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metadata.journal"
    commits = [[KeyChange(f"/{name}", VersionedValue(name.encode() * 9, 0))] for name in "abc"]
    _, sizes = write(path, commits)
    content = bytearray(path.read_bytes())
    content[sizes[2] - 1] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "ottla.cluster"):
        assert set(read(path)) == {"/a", "/c"}
    assert "is damaged at byte" in caplog.text
    assert (tmp_path / "metadata.journal.damaged").read_bytes() == content


@given(commits=COMMITS, zeros=st.integers(1, 5000))
@settings(max_examples=30, deadline=None)
def test_zeros_at_the_end_are_not_commits(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[KeyChange]], zeros: int
) -> None:
    """A file system may have extended the file without writing its data before a crash."""
    path = tmp_path_factory.getbasetemp() / "zeros.journal"
    states, sizes = write(path, commits)
    os.truncate(path, sizes[-1] + zeros)
    assert read(path) == states[-1]
    assert path.stat().st_size == sizes[-1]


def test_a_truncation_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metadata.journal"
    write(path, [[KeyChange("/a", VersionedValue(b"1", 0))]])
    with path.open("ab") as file:
        file.write(b"\0\0\0\x10half")
    with caplog.at_level(logging.WARNING, "ottla.cluster"):
        assert set(read(path)) == {"/a"}
    assert "cut 8 bytes of an unfinished write" in caplog.text


def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "metadata.journal"
    path.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(MetaStoreError, match="is not a metadata journal"):
        read(path)
    assert path.read_bytes() == b"#!/bin/sh\n"


def test_a_journal_in_use_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "metadata.journal"
    journal = Journal(path, sync=False)
    with pytest.raises(MetaStoreError, match="in use by another process"):
        Journal(path, sync=False)
    journal.rewrite({"/a": VersionedValue(b"1", 0)})
    with pytest.raises(MetaStoreError, match="in use by another process"):
        Journal(path, sync=False)
    journal.close()
    assert read(path) == {"/a": VersionedValue(b"1", 0)}


class Disk(JournalDisk):
    """A disk that the test makes full or broken."""

    full = broken = False

    def pwrite(self, descriptor: int, data: memoryview, position: int) -> int:
        if self.full and len(data) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(descriptor, data[:10] if self.full else data, position)

    def rename(self, old: Path, new: Path) -> None:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        super().rename(old, new)


def test_an_oversized_journal_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "metadata.journal"

    async def scenario() -> None:
        store = EmbeddedStore(path, journal_growth_bytes_min=1000)
        await store.create_ephemeral("/held", b"never written")
        await store.create("/a", bytes(100))
        sizes = []
        for version in range(100):
            await store.put("/a", bytes(100), version=version)
            sizes.append(path.stat().st_size)
        assert max(sizes) < 2000
        await store.create("/b", b"after a rewrite")
        await store.close()
        again = EmbeddedStore(path)
        assert await again.list("/") == {
            "/a": VersionedValue(bytes(100), 100),
            "/b": VersionedValue(b"after a rewrite", 0),
        }
        await again.close()

    asyncio.run(scenario())
    assert [entry.name for entry in tmp_path.iterdir()] == ["metadata.journal"]


def test_a_full_disk_refuses_the_commit_and_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metadata.journal"
    disk = Disk()

    async def scenario() -> None:
        store = EmbeddedStore(path, disk=disk)
        await store.create("/a", b"1")
        disk.full = True  # a part still fits
        with pytest.raises(MetaStoreError, match="No space left"):
            await store.commit([Put("/a", b"2", 0), Create("/b", b"")])
        assert await store.list("/") == {"/a": VersionedValue(b"1", 0)}
        disk.full = False
        await store.create("/c", b"")
        await store.close()

    asyncio.run(scenario())
    assert read(path) == {"/a": VersionedValue(b"1", 0), "/c": VersionedValue(b"", 0)}


def test_a_rewrite_that_fails_leaves_the_old_file_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metadata.journal"
    disk = Disk()

    async def scenario() -> None:
        store = EmbeddedStore(path, sync=False, journal_growth_bytes_min=100, disk=disk)
        disk.broken = True
        await store.create("/a", bytes(200))
        disk.broken = False
        await store.create("/b", b"")
        await store.close()

    asyncio.run(scenario())
    assert "keeps growing" in caplog.text
    assert set(read(path)) == {"/a", "/b"}
