"""The guarantees, one function each: History in, violations out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from delivery_groups import GroupLog
from delivery_history import History
from delivery_journal import RecordId
from delivery_log import Record, committed
from delivery_reasons import (
    NO_ANSWER,
    producers_are_refused_for_a_reason,
    workers_give_up_for_a_reason,
)

SHOWN_MAX = 20


def violations(history: History) -> list[str]:
    """All violations of this run."""
    found: list[str] = list(history.accidents)
    for check in (*ALWAYS, MODES[history.mode]):
        broken = list(check(history))
        found += broken[:SHOWN_MAX]
        if len(broken) > SHOWN_MAX:
            found.append(f"... and {len(broken) - SHOWN_MAX} more of that kind")
    return found


# Guarantees of every mode


def offsets_are_dense(history: History) -> Iterator[str]:
    """Every offset is a record or a marker: none is skipped."""
    for place, batches in history.logs.items():
        expected = 0
        for batch in batches:
            if batch.base_offset != expected:
                yield f"{place}: offset {expected} is missing, {batch.base_offset} follows"
            offsets = [record.offset for record in batch.records]
            if offsets != list(range(batch.base_offset, batch.last_offset + 1)):
                yield f"{place}: the batch at {batch.base_offset} has the offsets {offsets}"
            expected = batch.last_offset + 1


def offsets_are_stable(history: History) -> Iterator[str]:
    """An offset has the same record whenever it is read."""
    first = {
        (place, batch.base_offset): batch
        for place, batches in history.logs.items()
        for batch in batches
    }
    for place, batch in history.again:
        if (before := first.get((place, batch.base_offset))) != batch:
            yield f"{place}: offset {batch.base_offset} was {before}, later {batch}"


def watermarks_never_go_back(history: History) -> Iterator[str]:
    for (place, name), values in history.series.items():
        for before, after in pairwise(values):
            if after < before:
                yield f"{place}: the {name} went back from {before} to {after}"


def acknowledged_records_are_stored(history: History) -> Iterator[str]:
    """Acknowledged records are at the offset that the producer got."""
    stored = {
        (place, record.offset): record.value
        for place, batches in history.logs.items()
        for batch in batches
        for record in batch.records
    }
    for name, topic, partition, offset in history.entries("acked"):
        if offset is None:  # acks=0: there is no offset
            continue
        found = stored.get(((topic, partition), offset))
        if found is None or found.decode() != name:
            yield f"{name} was acknowledged at {topic}-{partition}@{offset}; there is {found!r}"


def read_committed_shows_what_was_committed(history: History) -> Iterator[str]:
    """The broker's lists of aborted transactions agree with the markers in its logs."""
    expected = {place: committed(batches) for place, batches in history.logs.items()}
    for read in history.committed_reads:
        between = [r for r in expected[read.place] if read.start <= r.offset < read.end]
        if list(read.shown) != between:
            yield f"{read.place} [{read.start}, {read.end}): " + difference(read.shown, between)


def observers_saw_what_was_committed(history: History) -> Iterator[str]:
    """Observers get each committed record once, in the order of offsets."""
    for name in history.observers:
        seen: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for line in history.journals[name]:
            if line[0] == "read":
                seen[line[1], line[2]].append((line[3], line[4]))
            elif line[0] == "error":
                yield f"{name}: {line[1]}"
        for place, batches in history.logs.items():
            if place[0] not in (history.input, history.output):
                continue
            wanted = [(r.offset, (r.value or b"").decode()) for r in committed(batches)]
            if seen[place] != wanted:
                yield f"{name} of {place}: " + difference(seen[place], wanted)


def a_partition_has_one_owner(history: History) -> Iterator[str]:
    log = GroupLog().read(history.group_batches)
    for group, generation, members in log.generations:
        owners = Counter(partition for owned in members.values() for partition in owned)
        for partition, count in owners.items():
            if count > 1:
                yield f"{group}: {partition} has {count} owners in generation {generation}"
    yield from log.shared
    for (group, member), epochs in log.epochs.items():
        for before, after in pairwise(epochs):
            if after < before and after > 0:
                yield f"{group}: the epoch of {member} went back from {before} to {after}"


def committed_offsets_never_go_back(history: History) -> Iterator[str]:
    """Committed offsets never decrease, neither in the log nor in OffsetFetch's answers.

    The exception is a commit that its worker gave up on and continued: the client sends it again,
    maybe after the next one. A commit has no sequence number, so it must repeat an earlier offset.
    """
    late = any(line.startswith(GIVEN_UP_COMMITS) for (line, *_) in history.entries("note"))
    log = GroupLog().read(history.group_batches)
    for (group, topic, partition), offsets in log.offsets.items():
        if group == history.group:
            yield from _backwards(f"{topic}-{partition} of {group}, in the log", offsets, late)
    for place, offsets in history.group_offsets.items():
        yield from _backwards(f"{place} by OffsetFetch", offsets, late)


GIVEN_UP_COMMITS = tuple(f"commit: {name}" for name in sorted(NO_ANSWER))


def _backwards(what: str, offsets: Sequence[int], late: bool) -> Iterator[str]:
    for number, (before, after) in enumerate(pairwise(offsets), 1):
        if after < before and not (late and after in offsets[:number]):
            yield f"the committed offset of {what} went from {before} to {after}"


# Guarantees of a mode


def at_most_once(history: History) -> Iterator[str]:
    """Records may be lost, but never duplicated."""
    yield from repeated(history, history.input)
    yield from repeated(history, history.output)
    yield from invented(history)


def at_least_once(history: History) -> Iterator[str]:
    """Acknowledged records are never lost; transformed ones may be duplicated. An idempotent
    producer (KIP-98) writes no duplicates itself: the input has each record once."""
    yield from repeated(history, history.input)
    yield from invented(history)
    there = {record.value for record in history.visible(history.input)}
    done = {record.value for record in history.visible(history.output)}
    acked = {
        name.encode() for name, topic, *_ in history.entries("acked") if topic == history.input
    }
    for name in sorted(acked - there):
        yield f"{name!r} was acknowledged and is not in the input"
    for name in sorted((acked | there) - done, key=str):
        yield f"{name!r} never came out"


def exactly_once(history: History) -> Iterator[str]:
    yield from repeated(history, history.input)
    yield from repeated(history, history.output)
    yield from invented(history)
    yield from torn(history, history.input)
    yield from torn(history, history.output)
    yield from outcomes(history)
    done = {record.value for record in history.visible(history.output)}
    for record in history.visible(history.input):
        if record.value not in done:
            yield f"{record.value!r} was committed and never came out"


def repeated(history: History, topic: str) -> Iterator[str]:
    counts = Counter(record.value for record in history.visible(topic))
    for value, count in counts.items():
        if count > 1:
            yield f"{value!r} is {count} times in {topic}"


def invented(history: History) -> Iterator[str]:
    there = {record.value for record in history.visible(history.input)}
    for record in history.visible(history.output):
        if record.value not in there:
            yield f"{record.value!r} came out and never went in"


def torn(history: History, topic: str) -> Iterator[str]:
    """All records of a transaction are visible, or none."""
    transactions: dict[str, list[RecordId]] = defaultdict(list)
    for record in history.visible(topic):
        record_id = RecordId.of(record.key)
        transactions[record_id.transaction].append(record_id)
    for name, records in transactions.items():
        if sorted(record_id.number for record_id in records) != list(range(records[0].count)):
            numbers = sorted(record_id.number for record_id in records)
            yield f"{topic} has {numbers} of the {records[0].count} records of {name}"


def outcomes(history: History) -> Iterator[str]:
    """A transaction's outcome is the one that its writer got."""
    seen = {
        RecordId.of(record.key).transaction
        for topic in (history.input, history.output)
        for record in history.visible(topic)
    }
    for (name,) in history.entries("committed"):
        if name not in seen:
            yield f"{name} was committed, and nothing of it is to be seen"
    for (name,) in history.entries("aborted"):
        if name in seen:
            yield f"{name} was aborted, and is to be seen"


def difference(shown: Iterable[object], wanted: Iterable[object]) -> str:
    have, want = list(shown), list(wanted)
    extra = [record for record in have if record not in want][:3]
    missing = [record for record in want if record not in have][:3]
    if not extra and not missing:
        return f"{len(have)} records in another order, or one of them twice, instead of {len(want)}"
    return f"{len(have)} records instead of {len(want)}; too many: {extra}, missing: {missing}"


Check = Callable[[History], Iterator[str]]
ALWAYS: tuple[Check, ...] = (
    offsets_are_dense,
    offsets_are_stable,
    watermarks_never_go_back,
    acknowledged_records_are_stored,
    read_committed_shows_what_was_committed,
    observers_saw_what_was_committed,
    a_partition_has_one_owner,
    committed_offsets_never_go_back,
    workers_give_up_for_a_reason,
    producers_are_refused_for_a_reason,
)
MODES: dict[str, Check] = {
    "at_most_once": at_most_once,
    "at_least_once": at_least_once,
    "exactly_once": exactly_once,
}


def records_through(history: History) -> int:
    """Count of different records that came out: a run without any proves nothing."""
    return len({record.value for record in history.visible(history.output)})


def evidence(history: History) -> dict[str, int]:
    """How much of each kind the checks have examined: none of the counts may be 0."""
    log = GroupLog().read(history.group_batches)
    return {
        "records through": records_through(history),
        "batches read again": len(history.again),
        "reads of committed records": len(history.committed_reads),
        "moves of a high watermark": sum(map(len, history.series.values())),
        "offsets committed": sum(map(len, log.offsets.values())),
        "answers of OffsetFetch": sum(map(len, history.group_offsets.values())),
        "assignments": len(log.generations) + len(log.holders),
        "records observed": sum(
            line[0] == "read" for name in history.observers for line in history.journals[name]
        ),
    }


def summary(history: History) -> str:
    """Counts of what the writers' journals say was sent, and of what is in the logs."""
    into: list[Record] = history.visible(history.input)
    out = history.visible(history.output)
    different = {record.value for record in out}
    lost = len(due(history) - different)
    words = [
        f"{len(list(history.entries('sent')))} sent",
        f"{len(into)} in",
        f"{len(out)} out",
        f"{lost} lost",
        f"{len(out) - len(different)} doubled",
    ]
    for kind in ("committed", "aborted"):
        if count := len(list(history.entries(kind))):
            words.append(f"{count} transactions {kind}")
    return ", ".join(words)


def due(history: History) -> set[bytes | None]:
    """The records that must come out: all input, and all that was acknowledged."""
    into = {record.value for record in history.visible(history.input)}
    if history.mode == "exactly_once":
        ended = {name for (name,) in history.entries("committed")}
        sent = (name for (name,) in history.entries("sent"))
        return into | {name.encode() for name in sent if RecordId.of(name).transaction in ended}
    acked = history.entries("acked")
    return into | {name.encode() for name, topic, *_ in acked if topic == history.input}
