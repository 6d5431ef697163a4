"""kafka-dump-log: prints the files of a log."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.offsets_topic import group_json, offset_commit_json
from ottla.cli.kafka.options import Option, Options
from ottla.cli.kafka.record_formats import GROUPS, SHARE_STATES, TRANSACTIONS, record_json
from ottla.cli.kafka.tool import ToolError, run
from ottla.client.serde_arguments import WORDS
from ottla.records.record import Record
from ottla.storage import dump
from ottla.storage.checkpoints import DamagedError

NAME: Final = "kafka-dump-log"
DESCRIPTION: Final = "This tool prints the files of a log: segments, indexes, snapshots."
DECODERS: Final = "org.apache.kafka.tools.api."
STRING: Final = f"{DECODERS}StringDecoder"

OPTIONS: Final = (
    Option("files", "REQUIRED: Files of logs, separated by commas.", "files"),
    Option("print-data-log", "Print the keys and values of records."),
    Option("deep-iteration", "Print records, not only batches."),
    Option("skip-record-metadata", "Print only keys and values of records."),
    Option(
        "max-bytes",
        "The number of bytes to read of each .log.",
        "bytes",
        default=str(dump.SIZE_MAX),
    ),
    Option("max-message-size", "Ignored.", "bytes", default="5242880"),
    Option("index-sanity-check", "Check an index without printing it."),
    Option("verify-index-only", "Compare an index with its log without printing it."),
    Option("offsets-decoder", "Decode records of __consumer_offsets."),
    Option("transaction-log-decoder", "Decode records of __transaction_state."),
    Option("share-group-state-decoder", "Decode records of __share_group_state."),
    Option("key-decoder-class", "The decoder of keys.", "class", optional=True, default=STRING),
    Option("value-decoder-class", "The decoder of values.", "class", optional=True, default=STRING),
)

Decode = Callable[[Record], tuple[str | None, str | None]]


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    for path in options.require("files").split(","):
        try:
            print(f"Dumping {path}")
            dump_file(path, options)
        except dump.UnknownFileError:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
        except DamagedError as error:
            raise ToolError(f"{path}: {error}") from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ToolError(f"{error.filename or path}: {error.strerror}") from None
    return 0


def dump_file(path: str, options: Options) -> None:
    suffix = Path(path).suffix
    if suffix == ".log":
        print(f"Log starting offset: {dump.base_offset_of(path)}")
        for line in log_lines(path, options):
            print(line)
    elif suffix == ".index":
        dump_index(path, options)
    elif suffix == ".timeindex":
        dump_time_index(path, options)
    else:
        for line in list(dump.dump_lines(path))[1:]:  # without "Dumping ..."
            print(line)


def log_lines(path: str, options: Options) -> Iterator[str]:
    contents = _contents(options)
    size_max = options.integer("max-bytes") or dump.SIZE_MAX
    read = 0
    try:
        for batch in dump.batches(path, size_max=size_max):
            yield dump.batch_line(batch)
            if contents or options.has("deep-iteration"):
                yield from record_lines(batch, options)
            read = batch.position + batch.header.size
    except DamagedError:
        if size_max == dump.SIZE_MAX:
            rest = Path(path).stat().st_size - read
            yield f"Found {rest} invalid bytes at the end of {Path(path).name}"


def record_lines(batch: dump.DumpedBatch, options: Options) -> Iterator[str]:
    """Each record's metadata, then key and payload as their decoders print them."""
    contents = _contents(options)
    skip = options.has("skip-record-metadata")
    if not contents or batch.header.control:
        if not skip:
            yield from dump.record_lines(batch, contents=False)
        return
    decode = decoder(options)
    heads = dump.record_lines(batch, contents=False)
    for head, record in zip(heads, batch.records(), strict=True):
        key, payload = decode(record)
        line = "|" if skip else head
        if key is not None:
            line += f" key: {key}"
        if payload is not None:
            line += f" payload: {payload}"
        yield line


def _contents(options: Options) -> bool:
    names = ("print-data-log", "key-decoder-class", "value-decoder-class", *TOPIC_DECODERS)
    return any(map(options.has, names))


def decoder(options: Options) -> Decode:
    for name, of_record in TOPIC_DECODERS.items():
        if options.has(name):
            return lambda record: _decoded(of_record(record))
    read_key = _read(options.value("key-decoder-class") or STRING)
    read_value = _read(options.value("value-decoder-class") or STRING)

    def decode(record: Record) -> tuple[str | None, str | None]:
        key, value = record.key, record.value
        return (
            None if key is None else read_key(key),
            None if value is None else read_value(value),
        )

    return decode


def _read(name: str) -> Callable[[bytes], str]:
    word = name.removeprefix(DECODERS).removesuffix("Decoder").lower()
    if word in ("string", "default"):
        return lambda data: data.decode(errors="replace")
    if word not in WORDS:
        raise ToolError(f"unknown decoder {name}; choose from {', '.join(WORDS)}")
    from_bytes = WORDS[word].from_bytes

    def read(data: bytes) -> str:
        try:
            return str(from_bytes(data))
        except ValueError as error:
            raise ToolError(f"{name}: {error}") from None

    return read


def _of_offsets(record: Record) -> Any:
    key, value = record.key, record.value
    return (
        offset_commit_json(key, value)
        or group_json(key, value, open_members=True)
        or record_json(GROUPS, key, value)
    )


def _decoded(found: Any) -> tuple[str | None, str | None]:
    if found is None:
        return None, None
    for part in ("key", "value"):  # the dump has the versions as strings
        if found[part] is not None:
            word = "type" if part == "key" else "version"
            found[part][word] = str(found[part][word])
    payload = "<DELETE>" if found["value"] is None else _json(found["value"])
    return _json(found["key"]), payload


TOPIC_DECODERS: Final[dict[str, Callable[[Record], Any]]] = {
    "offsets-decoder": _of_offsets,
    "transaction-log-decoder": lambda record: record_json(TRANSACTIONS, record.key, record.value),
    "share-group-state-decoder": lambda record: record_json(SHARE_STATES, record.key, record.value),
}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def dump_index(path: str, options: Options) -> None:
    entries = written(dump.index_entries(path), at=0)
    if options.has("index-sanity-check"):
        print(f"{path} passed sanity check.")
        return
    if not entries:
        print(f"{path} is empty.")
    if not options.has("verify-index-only"):
        for offset, position in entries:
            print(f"offset: {offset} position: {position}")
    lasts = {batch.position: batch.header.last_offset for batch in dump.batches(_log_of(path))}
    found = [(offset, lasts.get(position, -1)) for offset, position in entries]
    mismatches = [
        f"  Index offset: {offset}, log offset: {last}" for offset, last in found if offset != last
    ]
    complain(f"Mismatches in :{path}", reversed(mismatches))


def dump_time_index(path: str, options: Options) -> None:
    entries = written(dump.time_index_entries(path), at=1)
    if options.has("index-sanity-check"):
        print(f"{path} passed sanity check.")
        return
    if not options.has("verify-index-only"):
        for timestamp, offset in entries:
            print(f"timestamp: {timestamp} offset: {offset}")
    headers = [batch_.header for batch_ in dump.batches(_log_of(path))]
    mismatches, disordered, missing = [], [], []
    before = -1
    for timestamp, offset in entries:
        batch = next((header for header in headers if header.last_offset >= offset), None)
        last = -1 if batch is None else batch.last_offset
        if batch is None or last != offset:
            missing.append(f"Indexed offset: {offset}, found log offset: {last}")
        elif batch.max_timestamp != timestamp:
            mismatches.append(
                f"  Index timestamp: {timestamp}, log timestamp: {batch.max_timestamp}"
            )
        if timestamp <= before:
            disordered.append(
                f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
            )
        before = timestamp
    complain(f"Found timestamp mismatch in :{path}", mismatches)
    complain(f"Found out of order timestamp in :{path}", disordered)
    complain(f"The following indexed offsets are not found in :{path}", missing)


def written(entries: list[tuple[int, int]], *, at: int) -> list[tuple[int, int]]:
    """Without the zeros that a running broker's index has behind its entries."""
    for index in range(1, len(entries)):
        if entries[index][at] <= entries[index - 1][at]:
            return entries[:index]
    return entries


def complain(title: str, lines: Iterable[str]) -> None:
    shown = list(lines)
    if shown:
        print("\n".join([title, *shown]), file=sys.stderr)


def _log_of(path: str) -> str:
    return str(Path(path).with_suffix(".log"))


if __name__ == "__main__":
    sys.exit(main())
