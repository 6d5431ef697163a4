"""Rounds in turn, A B A B, so that a slow minute of the machine falls on both brokers.

Brokers that share rows are both up, one at work and the other idle; rows that start their own come
last, when those are gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.markup import escape

from benchmarks.bench import Bench, OwnRow, SharedRow
from benchmarks.brokers import Broker
from benchmarks.figures import Figure

Subject = TypeVar("Subject", Broker, str)


@dataclass(slots=True)
class CollectedFigures:
    """All measured figures, in the order of their first appearance."""

    values: dict[str, dict[str, list[Figure]]] = field(default_factory=dict)
    """Figure name, broker name, one figure per round."""
    failures: list[str] = field(default_factory=list)

    def add(self, broker: str, figures: Sequence[Figure]) -> None:
        for figure in figures:
            self.values.setdefault(figure.name, {}).setdefault(broker, []).append(figure)


class Rounds:
    def __init__(self, bench: Bench, console: Console) -> None:
        self.bench = bench
        self.console = console
        self.collected = CollectedFigures()
        self.started_at = time.monotonic()

    def run_shared(self, row: SharedRow, brokers: Sequence[Broker]) -> None:
        settings = self.bench.settings
        with self.bench.after_row:
            self._alternate(
                row.title,
                brokers,
                lambda broker: row.measure(self.bench, broker),
                rounds=(settings.discarded_rounds, settings.rounds),
            )

    def run_own(self, row: OwnRow, names: Sequence[str]) -> None:
        with self.bench.after_row:
            self._alternate(
                row.title,
                names,
                lambda name: row.measure(self.bench, name),
                rounds=row.rounds(self.bench.settings),
            )

    def _alternate(
        self,
        title: str,
        subjects: Sequence[Subject],
        measure: Callable[[Subject], list[Figure]],
        *,
        rounds: tuple[int, int],
    ) -> None:
        discarded, measured = rounds
        failed: set[str] = set()
        for number in range(discarded + measured):
            for subject in subjects:
                name = subject if isinstance(subject, str) else subject.name
                if name in failed:
                    continue
                counts = number >= discarded
                turn = f"round {number - discarded + 1}/{measured}" if counts else "discarded round"
                try:
                    figures = measure(subject)
                except Exception as error:  # one broken row must not cost the others
                    failed.add(name)
                    self.fail(f"{title} on {name}, {turn}: {error}")
                    continue
                if counts:
                    self.collected.add(name, figures)
                self.progress(f"{title} · {name} · {turn} · {_short(figures)}")

    def fail(self, text: str) -> None:
        self.collected.failures.append(text)
        self.progress(f"[red]failed: {escape(text)}[/red]")

    def progress(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.started_at), 60)
        self.console.print(f"[dim]{minutes:2d}:{seconds:02d}[/dim]  {text}", highlight=False)


def _short(figures: Sequence[Figure]) -> str:
    return ", ".join(f"{figure.value:,.6g} {figure.unit}" for figure in figures[:3])
