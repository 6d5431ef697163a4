"""What an append returns."""

from __future__ import annotations


class LogAppendInfo:
    """Where an append put its batches; for a duplicate, where the first try put them."""

    __slots__ = (
        "append_time_ms",
        "duplicate",
        "first_offset",
        "last_offset",
        "log_start_offset",
        "record_count",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        append_time_ms: int,
        log_start_offset: int,
        duplicate: bool,
        record_count: int,
        size: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms  # -1 for CreateTime
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate  # nothing was written: the log has the batch already
        self.record_count = record_count
        self.size = size

    def __repr__(self) -> str:
        kind = ", duplicate" if self.duplicate else ""
        return f"LogAppendInfo({self.first_offset} to {self.last_offset}{kind})"
