"""What a suite printed, as one outcome for each of its tests.

Each reader takes text and returns outcomes by the test's name. They do no I/O.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["passed", "failed", "skipped"]
REASON_CHARS_MAX = 300

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LIBRDKAFKA_ROW = re.compile(
    r"^\| (\S+)\s+\|\s+(PASSED|FAILED|SKIPPED|RUNNING|DNS) \|[^|]*\|(.*)$", re.MULTILINE
)
_LIBRDKAFKA_PASSED = re.compile(r"=== Test (\S+) PASSED ===")
_LIBRDKAFKA_FAILED = re.compile(r'^### Test "(\S+)" failed at .*\n(.*)$', re.MULTILINE)
_GO_VERDICTS: dict[str, Verdict] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_JEST_VERDICTS: dict[str, Verdict] = {"passed": "passed", "failed": "failed"}
# Lines of `go test` that say nothing about why a test failed.
_GO_NOISE = re.compile(r"^\s*(=== |--- |\.\.\.|PASS|FAIL|exit status|$)")
_GO_COMPLAINT = re.compile(r"_test\.go:\d+: |panic: |Error:|fatal error")


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    reason: str = ""


Outcomes = dict[str, Outcome]


def read_librdkafka(output: str) -> Outcomes:
    """The table that its test-runner prints at the end.

    A test that is still RUNNING then, or did not start (DNS), has failed. A runner that ends badly
    loses the end of its table: then count the lines that it writes as each test ends.
    """
    output = _COLOUR.sub("", output)
    outcomes: Outcomes = {name: Outcome("passed") for name in _LIBRDKAFKA_PASSED.findall(output)}
    for name, reason in _LIBRDKAFKA_FAILED.findall(output):
        outcomes[name] = Outcome("failed", _short(reason))
    for name, state, reason in _LIBRDKAFKA_ROW.findall(output):
        if state == "PASSED":
            outcomes[name] = Outcome("passed")
        elif state == "SKIPPED":
            outcomes[name] = Outcome("skipped", _short(reason))
        elif state == "DNS":
            outcomes[name] = Outcome("failed", "it did not start: the runner ended before")
        else:
            outcomes[name] = Outcome("failed", _short(reason) or "it was still running at the end")
    outcomes.pop("<MAIN>", None)  # the runner itself, which fails where a test has
    return outcomes


def read_go(output: str) -> Outcomes:
    """Lines of `go test -json` or `go tool test2json`, among other lines.

    Only tests without subtests count: a parent's verdict repeats those of its children. A test that
    began and did not end (a panic, a time limit) has failed.
    """
    said: dict[str, list[str]] = {}
    verdicts: dict[str, Verdict] = {}
    for event in _go_events(output):
        name, action = event.get("Test"), event["Action"]
        if not name:
            continue
        said.setdefault(name, [])
        if action == "output":
            said[name].append(event.get("Output", ""))
        elif action in _GO_VERDICTS:
            verdicts[name] = _GO_VERDICTS[action]
    outcomes: Outcomes = {}
    for name in _leaves(said, verdicts):
        verdict = verdicts.get(name, "failed")
        reason = "" if verdict == "passed" else _go_reason(said[name])
        if name not in verdicts:
            reason = f"it did not end; {reason}" if reason else "it did not end"
        outcomes[name] = Outcome(verdict, _short(reason))
    return outcomes


def read_junit(text: str) -> Outcomes:
    """JUnit's XML, which pytest and jest write. Names are `class::test` as the file has them."""
    outcomes: Outcomes = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        scope, name = case.get("classname", ""), case.get("name", "")
        name = name if name == scope else f"{scope}::{name}"  # jest names both alike
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        skipped = case.find("skipped")
        if problem is not None:
            said = problem.get("message") or _last_line(problem.text or "")
            outcomes[name] = Outcome("failed", _short(said))
        elif name in outcomes and outcomes[name].verdict == "failed":
            continue  # pytest writes a second entry where a fixture's end fails
        elif skipped is not None:
            outcomes[name] = Outcome("skipped", _short(skipped.get("message") or ""))
        else:
            outcomes[name] = Outcome("passed")
    return outcomes


def read_jest(text: str) -> Outcomes:
    """The outcomes in jest's --json output."""
    outcomes: Outcomes = {}
    for file in json.loads(text)["testResults"]:
        for test in file["assertionResults"]:
            verdict = _JEST_VERDICTS.get(test["status"], "skipped")
            reason = " ".join(test.get("failureMessages") or [])
            outcomes[test["fullName"]] = Outcome(verdict, _short(reason))
        if not file["assertionResults"]:  # it can't be loaded
            outcomes[file["name"].rpartition("/")[2]] = Outcome("failed", _short(file["message"]))
    return outcomes


def _go_events(output: str) -> Iterator[dict[str, str]]:
    for line in output.splitlines():
        if line.startswith('{"'):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "Action" in event:
                yield event


def _leaves(said: Iterable[str], verdicts: dict[str, Verdict]) -> list[str]:
    """Tests without subtests, and parents that failed although all their subtests passed."""
    names = list(said)
    parents = {name.rsplit("/", 1)[0] for name in names if "/" in name}
    children_failed = {
        name.rsplit("/", 1)[0]
        for name in names
        if "/" in name and verdicts.get(name, "failed") == "failed"
    }
    return [
        name
        for name in names
        if name not in parents
        or (verdicts.get(name, "failed") == "failed" and name not in children_failed)
    ]


def _go_reason(lines: list[str]) -> str:
    useful = [line.strip() for line in lines if not _GO_NOISE.match(line)]
    complaints = [line for line in useful if _GO_COMPLAINT.search(line)]
    return (complaints or useful or [""])[-1]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _short(text: str) -> str:
    words = " ".join(_COLOUR.sub("", text).split())
    return words if len(words) <= REASON_CHARS_MAX else words[: REASON_CHARS_MAX - 3] + "..."
