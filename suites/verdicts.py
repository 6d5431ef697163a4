"""What a run means: which failures are known, which are news, and which known ones have gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from suites.outcomes import Outcomes
from suites.suite import Known


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
    outcomes: Outcomes, known: Sequence[Known], *, suite: str, brokers: int, peer: str
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


def with_reasons(result: RunResult, known: Sequence[Known]) -> RunResult:
    """A result of an earlier run with the reasons of the catalogue as it is now."""
    failures = []
    for failure in result.failures:
        reasons = [it.reason for it in known if it.matches(failure.test, result.brokers)]
        failures.append(replace(failure, reason=reasons[0] if reasons else ""))
    return replace(result, failures=failures)


def _all_passed(entry: Known, outcomes: Outcomes, brokers: int) -> bool:
    """False as well if the tests of this entry did not run."""
    verdicts = {
        outcome.verdict for test, outcome in outcomes.items() if entry.matches(test, brokers)
    }
    return "passed" in verdicts and "failed" not in verdicts
