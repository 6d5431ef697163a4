"""The verdict of a run: known failures, new failures, and known ones that now pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from suites.outcomes import Outcomes
from suites.suite import KnownFailure


@dataclass(frozen=True, slots=True)
class Failure:
    test: str
    said: str
    """The suite's own words."""
    reason: str = ""
    """Ours, from the catalogue; empty for a failure that is news."""


@dataclass(frozen=True, slots=True)
class RunResult:
    suite: str
    brokers: int
    peer: str
    date: str = ""
    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Patterns of known failures whose tests have all passed."""
    troubles: list[str] = field(default_factory=list)
    """What went wrong around the tests: a broker that died, a traceback in its log, a limit."""
    not_run: str = ""
    took_s: float = 0.0
    source: str = ""

    @property
    def run(self) -> int:
        return self.passed + len(self.failures)

    @property
    def known(self) -> list[Failure]:
        return [failure for failure in self.failures if failure.reason]

    @property
    def unknown(self) -> list[Failure]:
        return [failure for failure in self.failures if not failure.reason]

    @property
    def is_good(self) -> bool:
        return not self.unknown and not self.troubles

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        failures = [Failure(**failure) for failure in value["failures"]]
        return cls(**{**value, "failures": failures})


def judge(
    outcomes: Outcomes, known: Sequence[KnownFailure], *, suite: str, brokers: int, peer: str
) -> RunResult:
    here = [entry for entry in known if not entry.brokers or brokers in entry.brokers]
    failures = []
    for test, outcome in outcomes.items():
        if outcome.verdict == "failed":
            reasons = [entry.reason for entry in here if entry.matches(test, brokers)]
            failures.append(Failure(test, outcome.reason, reasons[0] if reasons else ""))
    gone = [
        entry.pattern
        for entry in here
        if not entry.sometimes and _all_passed(entry, outcomes, brokers)
    ]
    verdicts_of_all = [outcome.verdict for outcome in outcomes.values()]
    return RunResult(
        suite,
        brokers,
        peer,
        passed=verdicts_of_all.count("passed"),
        skipped=verdicts_of_all.count("skipped"),
        failures=failures,
        gone=gone,
    )


def with_reasons(result: RunResult, known: Sequence[KnownFailure]) -> RunResult:
    """A result of an earlier run with the catalogue's present reasons."""
    failures = []
    for failure in result.failures:
        reasons = [entry.reason for entry in known if entry.matches(failure.test, result.brokers)]
        failures.append(replace(failure, reason=reasons[0] if reasons else ""))
    return replace(result, failures=failures)


def _all_passed(entry: KnownFailure, outcomes: Outcomes, brokers: int) -> bool:
    """Also False if the tests of this entry did not run."""
    verdicts = {
        outcome.verdict for test, outcome in outcomes.items() if entry.matches(test, brokers)
    }
    return "passed" in verdicts and "failed" not in verdicts
