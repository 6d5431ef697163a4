"""The table, its conditions, and the same as JSON and Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.brokers import KAFKA, OTTLA
from benchmarks.figures import Figure
from benchmarks.rounds import CollectedFigures

# Closer than this, two medians say nothing about which broker is the better one.
EQUAL_WITHIN = 0.03


@dataclass(frozen=True, slots=True)
class Measurement:
    """One broker's figure over all rounds."""

    values: list[float]
    cpu_us: float | None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the range, as a share of the median."""
        if not self.median:
            return 0.0
        return (max(self.values) - min(self.values)) / 2 / abs(self.median)


@dataclass(frozen=True, slots=True)
class ReportLine:
    name: str
    unit: str
    higher_is_better: bool
    by_broker: dict[str, Measurement]

    @property
    def ratio(self) -> float | None:
        """How many times better Ottla is: above 1 is better, whichever way the unit counts."""
        ours, theirs = self.by_broker.get(OTTLA), self.by_broker.get(KAFKA)
        if ours is None or theirs is None:
            return None
        better, worse = (ours, theirs) if self.higher_is_better else (theirs, ours)
        return better.median / worse.median if worse.median else None

    @property
    def verdict(self) -> str:
        ours, theirs = self.by_broker.get(OTTLA), self.by_broker.get(KAFKA)
        if ours is None or theirs is None:
            return ""
        difference = ours.median - theirs.median
        if abs(difference) <= EQUAL_WITHIN * abs(theirs.median):
            return "equal"
        return "better" if (difference > 0) == self.higher_is_better else "worse"


def lines_of(collected: CollectedFigures) -> list[ReportLine]:
    return [_line(name, by_broker) for name, by_broker in collected.values.items()]


def _line(name: str, by_broker: Mapping[str, Sequence[Figure]]) -> ReportLine:
    any_figure = next(iter(by_broker.values()))[0]
    return ReportLine(
        name,
        any_figure.unit,
        any_figure.higher_is_better,
        {broker: _measured(figures) for broker, figures in by_broker.items()},
    )


def _measured(figures: Sequence[Figure]) -> Measurement:
    cpu = [figure.cpu_us for figure in figures if figure.cpu_us is not None]
    return Measurement([f.value for f in figures], statistics.median(cpu) if cpu else None)


def print_report(
    console: Console,
    lines: Sequence[ReportLine],
    conditions: Mapping[str, str],
    failures: Sequence[str],
) -> None:
    console.print()
    console.print(as_table(lines))
    for name, text in conditions.items():
        console.print(f"[bold]{name}[/bold]  {escape(text)}", highlight=False)
    for failure in failures:
        console.print(f"[red bold]failed:[/red bold] {escape(failure)}", highlight=False)


def as_table(lines: Sequence[ReportLine]) -> Table:
    table = Table(title="Ottla beside Apache Kafka", title_justify="left")
    table.add_column("measured")
    table.add_column("unit")
    for heading in ("Ottla", "Kafka", "ratio", "", "CPU us: Ottla", "Kafka"):
        table.add_column(heading, justify="right")
    colours = {"better": "green", "worse": "red", "equal": "yellow", "": "dim"}
    for line in lines:
        cells = [
            _with_spread(line.by_broker.get(OTTLA)),
            _with_spread(line.by_broker.get(KAFKA)),
            ratio_text(line.ratio),
            line.verdict,
            _cpu_text(line.by_broker.get(OTTLA)),
            _cpu_text(line.by_broker.get(KAFKA)),
        ]
        colour = colours[line.verdict]
        cells[2:4] = [f"[{colour}]{cell}[/{colour}]" for cell in cells[2:4]]
        table.add_row(line.name, line.unit, *cells)
    return table


def as_markdown(lines: Sequence[ReportLine], conditions: Mapping[str, str]) -> str:
    """The same table for the README and docs/benchmarks.md."""
    rows = [
        "| measured | unit | Ottla | Kafka | ratio | | CPU us a record: Ottla | Kafka |",
        "|---|---|--:|--:|--:|---|--:|--:|",
    ]
    for line in lines:
        ours, theirs = line.by_broker.get(OTTLA), line.by_broker.get(KAFKA)
        cells = [
            line.name,
            line.unit,
            "-" if ours is None else number_text(ours.median),
            "-" if theirs is None else number_text(theirs.median),
            ratio_text(line.ratio),
            line.verdict,
            _cpu_text(ours),
            _cpu_text(theirs),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    notes = [f"- {name}: {text}" for name, text in conditions.items()]
    return "\n".join([*rows, "", *notes, ""])


def as_json(
    lines: Sequence[ReportLine], conditions: Mapping[str, str], failures: Sequence[str]
) -> dict[str, Any]:
    return {
        "conditions": dict(conditions),
        "figures": [
            {
                "name": line.name,
                "unit": line.unit,
                "higher_is_better": line.higher_is_better,
                "ratio": line.ratio,
                "verdict": line.verdict,
                **{
                    broker: {
                        "median": measured.median,
                        "rounds": measured.values,
                        "cpu_us": measured.cpu_us,
                    }
                    for broker, measured in line.by_broker.items()
                },
            }
            for line in lines
        ],
        "failures": list(failures),
    }


def number_text(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio_text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _with_spread(measured: Measurement | None) -> str:
    if measured is None:
        return "-"
    text = number_text(measured.median)
    if len(measured.values) > 1:
        text += f" [dim]±{measured.spread * 100:.0f}%[/dim]"
    return text


def _cpu_text(measured: Measurement | None) -> str:
    if measured is None or measured.cpu_us is None:
        return ""
    return number_text(measured.cpu_us)
