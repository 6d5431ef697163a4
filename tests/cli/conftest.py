"""The broker that the tools' tests share: ours, or the one at OTTLA_TEST_BOOTSTRAP."""

from __future__ import annotations

import io
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from ottla.client import Admin, Producer

Main = Callable[[Sequence[str]], int]


class Ran(NamedTuple):
    """What a tool printed, and the exit code it returned."""

    out: str
    err: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    external = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    return external or request.getfixturevalue("kafka_session").bootstrap_servers


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def topic() -> str:
    """A name that no topic has yet."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def run(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """`run(main, "--list", stdin="...")` in this process."""

    def run(main: Main, *words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsysbinary.readouterr()
        code = main(list(words))
        sys.stdout.flush()
        out, err = capsysbinary.readouterr()
        return Ran(out.decode(), err.decode(), code)

    return run


@pytest.fixture
def five(bootstrap: str, admin: Admin, topic: str) -> str:
    """A topic with five records: values 0 to 4, keys k0 to k4."""
    admin.topics.create(topic, 1)
    settings = {"enable.idempotence": False}
    with Producer(bootstrap, key=str, value=str, settings=settings) as producer:
        for number in range(5):
            producer.send(topic, str(number), key=f"k{number}", timestamp_ms=1000 + number)
    return topic
