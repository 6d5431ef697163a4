"""Kafka Connect's own converters, transforms, predicates and settings beside ours.

About 1,800 questions (compat_connect_values.py) are put to Kafka's classes, in Java
(tools/clients/connect), and to ours. Answers are the same JSON, and errors the same text; but for
what is listed here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from compat_brokers import REPOSITORY, kafka_jars
from compat_connect_values import ANSWERS, ours, questions

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]

Question = dict[str, Any]
ORACLE = REPOSITORY / "tools" / "clients" / "connect" / "Oracle.java"
# Kafka takes time zone, weeks and names of months from the machine it runs on.
PLACE = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
# Specific to Java: names of classes, messages of its parsers.
JAVAS_OWN = re.compile(r"java\.|class |org\.apache|SinkRecord\{|Invalid regex|Illegal")

# Where results may differ, and why. Each is a choice, not an oversight.
DIFFERENCES: dict[str, Callable[[Question, Any], bool]] = {
    "a list without a type for its items is one of strings: there is no schema without": (
        lambda q, theirs: q["ask"] == "header" and "null)" in str(theirs.get("schema"))
    ),
    "a number beyond a double is refused; integers beyond 64 bits are kept": (
        lambda q, theirs: q["ask"] == "json" and q["data"] in ("1e400", "12345678901234567890")
    ),
    "text after a JSON document is refused": lambda q, theirs: q.get("data") == "1 2",
    "of two fields that get one name, Kafka's hash map decides": (
        lambda q, theirs: q.get("props") == {"renames": "id:name"}
    ),
    "Kafka 4.3 sets the metadata of structs only, later ones of each schema": (
        lambda q, theirs: theirs.get("message") == "Cannot list fields on non-struct type"
    ),
    "a datetime ends with the year 9999": (
        lambda q, theirs: q.get("props", {}).get("unix.precision") == "seconds"
    ),
    "a float that is nearly zero has more digits": lambda q, theirs: "-1.4E-45" in str(theirs),
    "text without a pattern is a setting that is missing, not a null pointer": (
        lambda q, theirs: theirs.get("error") == "NullPointerException"
    ),
    "a bad pattern is found at once, not with the first record": (
        lambda q, theirs: q.get("props") == {"timestamp.format": "nope"}
    ),
}


@pytest.fixture(scope="module")
def answers() -> list[tuple[Question, dict[str, Any]]]:
    asked = list(questions())
    lines = "".join(json.dumps(entry) + "\n" for entry in asked)
    result = subprocess.run(
        ["java", "-Xmx256M", *PLACE, "-cp", f"{kafka_jars()}/*", str(ORACLE)],
        input=lines, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return list(zip(asked, map(json.loads, result.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_equal_kafkas(answers: list[tuple[Question, dict[str, Any]]], kind: str) -> None:
    some = [(question, theirs) for question, theirs in answers if question["ask"] == kind]
    assert some
    wrong = [
        f"{question}\n  Kafka: {theirs}\n  ours:  {ours(question)}"
        for question, theirs in some
        if not is_same(theirs, ours(question)) and not is_known(question, theirs)
    ]
    assert not wrong, "\n".join(wrong)


def is_same(theirs: dict[str, Any], mine: dict[str, Any]) -> bool:
    if "error" not in theirs or "error" not in mine:
        return canonical(theirs) == canonical(mine)
    message = str(theirs["message"])
    if JAVAS_OWN.search(message):
        return True
    # orjson's message is longer than Jackson's.
    return (
        str(mine["message"]).startswith(message)
        if message.endswith(": ")
        else (message == mine["message"])
    )


def is_known(question: Question, theirs: dict[str, Any]) -> bool:
    return any(is_one(question, theirs) for is_one in DIFFERENCES.values())


def canonical(answer: Any) -> Any:
    """JSON within JSON, with its keys in any order."""
    if isinstance(answer, dict):
        return {key: canonical(value) for key, value in answer.items()}
    if isinstance(answer, str) and answer[:1] in ("{", "["):
        try:
            return canonical(json.loads(answer))
        except ValueError:
            return answer
    return answer
