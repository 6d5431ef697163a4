"""Kafka's own ProducerPerformance, ConsumerPerformance and EndToEndLatency: the load of most rows.

They run unchanged and with their defaults (acks apart), against either broker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.apache_kafka import tool_command
from benchmarks.brokers import Target
from benchmarks.processes import ToolError, finish_tool, run_tool, started_tool
from benchmarks.topics import wait_for_group

TOOL_TIMEOUT_S = 600.0
CONSUMER_SILENCE_MS = 60_000
DATE_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_SENT = re.compile(
    r"(?P<count>\d+) (?P<steady>steady state )?records sent, (?P<rate>[\d.]+) records/sec"
    r" \((?P<mb>[\d.]+) MB/sec\).* (?P<p99>[\d.]+) ms 99th"
)
_MEAN = re.compile(r"Avg latency: (?P<mean>[\d.]+) ms")
_PERCENTILES = re.compile(
    r"Percentiles: 50th = (?P<p50>\d+), 99th = (?P<p99>\d+), 99.9th = (?P<p999>\d+)"
)


@dataclass(frozen=True, slots=True)
class ProduceResult:
    rate: float
    """Records per second, after the tool's warm-up."""


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    rate: float
    """Records per second from the first fetch on, without the time the group took to form."""
    count: int
    ended_at_ms: int


@dataclass(frozen=True, slots=True)
class EndToEnd:
    mean_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


def producer_command(
    broker: Target,
    topic: str,
    *,
    payloads: Path,
    count: int,
    warm_up_count: int,
    acks: str = "1",
    config: Path | None = None,
) -> list[str]:
    """Payloads come from a file: made one random byte at a time, as --record-size does, they would
    cost the tool more than the broker spends on them. `config` is a client's properties file."""
    warm_up = ["--warmup-records", str(warm_up_count)] if warm_up_count else []
    return tool_command(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--num-records", str(count + warm_up_count), *warm_up),
        *("--throughput", "-1", "--payload-file", str(payloads)),
        *("--command-property", f"acks={acks}", *_config(config)),
    )


def consumer_command(
    broker: Target, topic: str, *, count: int, group: str, config: Path | None = None
) -> list[str]:
    return tool_command(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--num-records", str(count), "--group", group, "--timeout", str(CONSUMER_SILENCE_MS)),
        *("--date-format", DATE_FORMAT, "--hide-header", *_config(config)),
    )


def _config(config: Path | None) -> tuple[str, ...]:
    return () if config is None else ("--command-config", str(config))


def produce(
    broker: Target,
    topic: str,
    *,
    payloads: Path,
    count: int,
    warm_up_count: int = 0,
    acks: str = "1",
    config: Path | None = None,
) -> ProduceResult:
    command = producer_command(
        broker,
        topic,
        payloads=payloads,
        count=count,
        warm_up_count=warm_up_count,
        acks=acks,
        config=config,
    )
    return parse_produced(run_tool(command, timeout_s=TOOL_TIMEOUT_S).output)


def consume(
    broker: Target, topic: str, *, count: int, group: str, config: Path | None = None
) -> ConsumeResult:
    command = consumer_command(broker, topic, count=count, group=group, config=config)
    consumed = parse_consumed(run_tool(command, timeout_s=TOOL_TIMEOUT_S).output)
    return _whole(consumed, count)


def produce_and_consume(
    broker: Target, topic: str, *, payloads: Path, count: int
) -> tuple[ProduceResult, ConsumeResult]:
    """Both at once: the producer starts when the consumer's group waits for records."""
    group = f"{topic}-group"
    consumer = consumer_command(broker, topic, count=count, group=group)
    producer = producer_command(broker, topic, payloads=payloads, count=count, warm_up_count=0)
    with started_tool(consumer) as reading:
        wait_for_group(broker, group)
        with started_tool(producer) as writing:
            produced = parse_produced(finish_tool(writing, timeout_s=TOOL_TIMEOUT_S).output)
            consumed = parse_consumed(finish_tool(reading, timeout_s=TOOL_TIMEOUT_S).output)
    return produced, _whole(consumed, count)


def end_to_end(broker: Target, topic: str, *, count: int, size: int) -> EndToEnd:
    command = tool_command(
        "org.apache.kafka.tools.EndToEndLatency",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--num-records", str(count), "--producer-acks", "1", "--record-size", str(size)),
    )
    return parse_end_to_end(run_tool(command, timeout_s=TOOL_TIMEOUT_S).output)


def parse_produced(output: str) -> ProduceResult:
    """The last summary line: the steady state if there was a warm-up, else the whole run."""
    found = [match for match in map(_SENT.search, output.splitlines()) if match]
    if not found:
        raise ToolError(f"ProducerPerformance gave no summary:\n{output[-2000:]}")
    return ProduceResult(rate=float(found[-1]["rate"]))


def parse_consumed(output: str) -> ConsumeResult:
    """Ten fields: start, end, MB, MB/s, records, records/s, ms of rebalance, then of fetch only:
    ms, MB/s, records/s."""
    for line in reversed(output.splitlines()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 10 and fields[0][:2] == "20":
            ended_at = datetime.fromisoformat(fields[1]).timestamp()
            return ConsumeResult(
                rate=float(fields[9]), count=int(fields[4]), ended_at_ms=int(ended_at * 1000)
            )
    raise ToolError(f"ConsumerPerformance gave no result:\n{output[-2000:]}")


def parse_end_to_end(output: str) -> EndToEnd:
    mean, percentiles = _MEAN.search(output), _PERCENTILES.search(output)
    if mean is None or percentiles is None:
        raise ToolError(f"EndToEndLatency gave no result:\n{output[-2000:]}")
    return EndToEnd(
        mean_ms=float(mean["mean"]),
        p50_ms=float(percentiles["p50"]),
        p99_ms=float(percentiles["p99"]),
        p999_ms=float(percentiles["p999"]),
    )


def _whole(consumed: ConsumeResult, count: int) -> ConsumeResult:
    if consumed.count < count:
        raise ToolError(f"the consumer got {consumed.count} of {count} records")
    return consumed
