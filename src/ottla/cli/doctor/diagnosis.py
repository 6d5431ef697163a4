"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    FINE = "fine"
    MISSING = "missing"
    """Not there, and nobody has asked for it."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`remedy` is what to do; empty where there is nothing to do."""

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
