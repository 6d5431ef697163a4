"""What security costs: records over TLS, full handshakes, and a question to the authorizer."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from benchmarks import perf_tools
from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import OTTLA, Broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import ToolError, run_tool
from benchmarks.rows.throughput import WARM_UP_SHARE, Consume
from benchmarks.secured_listeners import CIPHER, door
from benchmarks.settings import LARGE_BYTES, Settings
from benchmarks.topics import topic_for

WORDS = {"SSL": "TLS", "SASL_SSL": "SASL_SSL"}
EXTRA_TIME_S = 60.0


def conditions(settings: Settings) -> str:
    return (
        f"TLS 1.3 with {CIPHER}, one certificate (P-256, PEM) for both brokers, SASL is PLAIN;"
        f" Ottla's TLS is {ssl.OPENSSL_VERSION}, in the process (no kTLS), Kafka's is Java's"
    )


@dataclass(frozen=True, slots=True)
class SecuredProduce:
    protocol: str

    @property
    def title(self) -> str:
        return f"produce 1 KB over {WORDS[self.protocol]}, acks 1"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.large_count
        warm_up_count = int(count * WARM_UP_SHARE)
        through = door(bench, broker, self.protocol)
        with topic_for(broker, "secured") as topic, Meter(broker) as meter:
            produced = perf_tools.produce(
                through,
                topic,
                payloads=bench.payloads(LARGE_BYTES),
                count=count,
                warm_up_count=warm_up_count,
                config=through.config,
            )
        cpu_us = meter.us_per(count + warm_up_count)
        return [rate(self.title, "records/s", produced.rate, cpu_us=cpu_us)]


class SecuredConsume(Consume):
    """Written in the clear, read over TLS."""

    def __init__(self, protocol: str) -> None:
        super().__init__(LARGE_BYTES)
        self.protocol = protocol
        self.title = f"consume 1 KB over {WORDS[protocol]}"

    def consumed(
        self, bench: Bench, broker: Broker, topic: str, group: str
    ) -> perf_tools.ConsumeResult:
        through, count = door(bench, broker, self.protocol), bench.settings.large_count
        return perf_tools.consume(through, topic, count=count, group=group, config=through.config)


@dataclass(frozen=True, slots=True)
class FullHandshakes:
    """Connect, full handshake, ApiVersions, close; several clients, each one after another."""

    title: str = "connections with a full TLS handshake"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        seconds = bench.settings.request_seconds
        command = python_module(
            "benchmarks.handshake_load",
            *("--port", str(broker.listeners["SSL"]), "--seconds", str(seconds)),
        )
        with Meter(broker) as meter:
            output = run_tool(command, timeout_s=seconds + EXTRA_TIME_S).output
        result = last_json(output)
        done = result["connections"]
        value = done / result["elapsed_s"]
        return [rate(self.title, "connections/s", value, cpu_us=meter.us_per(done))]


@dataclass(frozen=True, slots=True)
class AccessCost:
    """The CPU of a Produce and of a Fetch with an authorizer and without, by the very Python that
    runs the broker: a microsecond drowns in the noise of sockets. Ottla only."""

    title: str = "CPU of a request with ACLs"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return 0, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name != OTTLA:
            return []
        program = bench.commands[OTTLA](bench.directory, 0)[0]
        python = Path(program).parent / "python"
        if not python.exists():
            raise ToolError(f"no {python} to ask what a request costs")
        output = run_tool([str(python), "-m", "benchmarks.access_cost"], timeout_s=EXTRA_TIME_S)
        return [
            cost(f"{request}, ACLs {how}, CPU", "us", value)
            for request, costs in last_json(output.output).items()
            for how, value in costs.items()
        ]
