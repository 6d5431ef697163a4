"""One result of `ottla doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    FINE = "fine"
    MISSING = "missing"
    """Absent, but optional."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`remedy` is what to do; empty if nothing is needed."""

    section: str
    name: str
    verdict: Verdict
    words: str
    remedy: str = ""


def fine(section: str, name: str, words: str, remedy: str = "") -> Diagnosis:
    return Diagnosis(section, name, Verdict.FINE, words, remedy)


def missing(section: str, name: str, words: str, remedy: str = "") -> Diagnosis:
    return Diagnosis(section, name, Verdict.MISSING, words, remedy)


def wrong(section: str, name: str, words: str, remedy: str = "") -> Diagnosis:
    return Diagnosis(section, name, Verdict.WRONG, words, remedy)
