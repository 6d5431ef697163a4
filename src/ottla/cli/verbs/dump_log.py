"""ottla dump-log: prints the files of a log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.cli.console import AsJson
from ottla.cli.kafka.dump_log import main as kafka_dump_log
from ottla.cli.kafka.tool import ToolError, broken_pipe
from ottla.storage import dump
from ottla.storage.checkpoints import DamagedError

HELP = """Print the files of a log: segments, indexes, snapshots. A folder means all its segments.

[dim]ottla dump-log data/orders-0
ottla dump-log data/orders-0/00000000000000000000.log --records --json
ottla dump-log data/__consumer_offsets-0 --offsets[/dim]
"""

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def dump_log(
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders of partitions.")],
    *,
    records: Annotated[bool, typer.Option("--records", "-r", help="Records too.")] = False,
    contents: Annotated[
        bool, typer.Option("--contents", "-c", help="Include keys and values.")
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Decode records of __consumer_offsets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    files = [file for path in paths for file in _files(path)]
    if as_json:
        try:
            for path in files:
                for found in _objects(path, records=records or contents):
                    print(json.dumps(found, ensure_ascii=False))
            sys.stdout.flush()
        except BrokenPipeError:  # `| head` has closed the pipe
            raise typer.Exit(broken_pipe()) from None
        return
    words = ["--files", ",".join(map(str, files))]
    words += ["--deep-iteration"] if records else []
    words += ["--print-data-log"] if contents else []
    words += ["--offsets-decoder"] if offsets else []
    code = kafka_dump_log(words)
    if code:
        raise typer.Exit(code)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise ToolError(f"{path}: no such file")
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.log"))
    if not found:
        raise ToolError(f"{path} has no segments, so it is not the folder of a partition")
    return found


def _objects(path: Path, *, records: bool) -> Iterator[dict[str, Any]]:
    if path.suffix != ".log":
        for line in list(dump.dump_lines(str(path)))[1:]:
            yield {"file": str(path), "line": line}
        return
    try:
        for batch in dump.batches(str(path)):
            yield {"file": str(path), **_batch(batch, records=records)}
    except DamagedError as error:
        yield {"file": str(path), "error": str(error)}


def _batch(batch: dump.DumpedBatch, *, records: bool) -> dict[str, Any]:
    header = batch.header
    shown: dict[str, Any] = {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "size": header.size,
        "leader_epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "compression": dump.CODEC_NAMES[header.compression],
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.transactional,
        "control": header.control,
        "crc": header.crc,
        "valid": batch.is_valid,
    }
    if records and batch.is_valid:
        shown["records"] = [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": {name: _text(data) for name, data in record.headers},
            }
            for record in batch.records()
        ]
    return shown


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
