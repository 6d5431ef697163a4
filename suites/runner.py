"""One run: sources, brokers, commands, outcomes. It stops all that it starts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.brokers import StartError
from benchmarks.clusters import Cluster

from suites import brokers, compose
from suites.outcomes import Outcome, Outcomes
from suites.ports import PortTaken
from suites.registry_server import RunningRegistry, running_registry
from suites.sources import CACHE, STAND_INS, MissingError
from suites.suite import Run, Step, Suite
from suites.token_provider import token_provider
from suites.verdicts import RunResult, judge

FOLDER = CACHE / "suites"
TOOLS = FOLDER / "kafka-tools"
SAY_EVERY_S = 60.0
LOOK_EVERY_S = 0.5
END_S_MAX = 20.0
TRACEBACK = re.compile(r"^Traceback \(most recent call last\)", re.MULTILINE)

Say = Callable[[str], None]


def folder_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def home_of(suite: Suite) -> Path:
    """Suites of one source share it."""
    return FOLDER / folder_name(suite.name.split(",")[0])


def prepare(suite: Suite, checkouts: Path | None) -> None:
    suite.source.prepare(home_of(suite), checkouts)
    compose.write_tools(TOOLS)


def run_suite(
    suite: Suite,
    count: int,
    peer: str,
    *,
    checkouts: Path | None,
    tests: str | None = None,
    say: Say,
) -> RunResult:
    began = time.monotonic()
    label = f"{suite.name} on {count} x {peer}"
    nothing = RunResult(suite.name, count, peer)
    try:
        say(f"{label}: preparing")
        prepare(suite, checkouts)
        outcomes, troubles = _on_brokers(
            suite, count, peer, tests, lambda it: say(f"{label}: {it}")
        )
    except (MissingError, PortTaken) as missing:
        return replace(nothing, not_run=str(missing))
    except StartError as error:
        return replace(nothing, troubles=[str(error)])
    judged = judge(outcomes, suite.known, suite=suite.name, brokers=count, peer=peer)
    return replace(
        judged,
        date=datetime.now(UTC).date().isoformat(),
        troubles=troubles,
        took_s=round(time.monotonic() - began, 1),
        source=suite.source.where(),
    )


def _on_brokers(
    suite: Suite, count: int, peer: str, tests: str | None, say: Say
) -> tuple[Outcomes, list[str]]:
    folder = FOLDER / "runs" / folder_name(f"{suite.name} {count} {peer}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    home = home_of(suite)
    with ExitStack() as stack:
        stack.callback(_remove_data, folder)
        provider = None
        if suite.secured and suite.secured.provider:
            provider = stack.enter_context(token_provider(home, folder / "provider"))
        keys = provider.keys if provider else ""
        running = stack.enter_context(brokers.running(peer, suite, count, folder / "brokers", keys))
        cluster = running.cluster
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suites-")))
        stack.enter_context(compose.control(sockets / "control", cluster))
        run = Run(
            home,
            folder,
            brokers.addresses(suite, cluster),
            TOOLS,
            tests,
            secured=running.secured,
            provider=provider,
            certificates=brokers.certificates(folder / "brokers"),
        )
        if suite.proxied:
            proxy = brokers.proxied(suite, cluster, home / "bin" / "server", folder)
            run = replace(run, proxy=stack.enter_context(proxy))
        registry = None
        if suite.registry:
            served = running_registry(suite.registry, run.bootstrap, folder)
            registry = stack.enter_context(served)
            run = replace(run, registry=registry.url)
        environment = _environment(sockets / "control")
        outcomes, troubles = _run_steps(suite, run, environment, say)
        troubles += _broker_troubles(cluster)
        troubles += _registry_troubles(registry)
    return outcomes, troubles


def _run_steps(
    suite: Suite, run: Run, environment: dict[str, str], say: Say
) -> tuple[Outcomes, list[str]]:
    deadline = time.monotonic() + suite.limit_s
    outcomes: Outcomes = {}
    troubles: list[str] = []
    steps = suite.steps(run, dict(suite.left_out))
    for number, step in enumerate(steps, 1):
        log = run.folder / f"step-{number}.log"
        ended = _run_step(step, environment, log, deadline, say)
        found = _read(step, log)
        outcomes |= {f"{step.prefix}{name}": outcome for name, outcome in found.items()}
        say(f"step {number} of {len(steps)}: {_count(found)}; {log}")
        if not ended:
            troubles.append(f"step {number} was ended after the limit of {suite.limit_s // 60} min")
            break
        if not found:
            troubles.append(f"step {number} has no outcomes: {_tail(log)}")
    return outcomes, troubles


def _run_step(
    step: Step, environment: dict[str, str], log: Path, deadline: float, say: Say
) -> bool:
    """False if it had to be ended at the deadline."""
    began = said_at = time.monotonic()
    with log.open("wb") as out, _errors(log).open("wb") as errors:
        process = subprocess.Popen(
            list(step.command),
            cwd=step.cwd,
            env={**environment, **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            now = time.monotonic()
            if now > deadline:
                return False
            if now - said_at > SAY_EVERY_S:
                said_at = now
                size = sum(path.stat().st_size for path in (log, _errors(log)))
                say(f"{(now - began) / 60:.0f} min, {size >> 10} KiB of output")
            time.sleep(LOOK_EVERY_S)
        return True
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it with its descendants; the time between the signals lets a test runner report."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S_MAX)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _errors(log: Path) -> Path:
    """A separate file for stderr: in one file the two streams would break each other's lines."""
    return log.with_suffix(".stderr.log")


def _read(step: Step, log: Path) -> Outcomes:
    if step.report is None:
        return step.read(_text(log))
    if not step.report.exists():
        return {}
    try:
        return step.read(step.report.read_text(errors="replace"))
    except SyntaxError as error:  # XML that is cut off, too
        return {step.report.name: Outcome("failed", f"its report can't be read: {error}")}


def _text(log: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in (_errors(log), log))


def _environment(control: Path) -> dict[str, str]:
    """The environment of a suite, without Python settings of this process."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "CI")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {
        **kept,
        "PATH": f"{STAND_INS}:{kept['PATH']}",
        "SUITE_CONTROL": str(control),
        "SUITE_TOOLS": str(TOOLS),
    }


def _broker_troubles(cluster: Cluster) -> list[str]:
    return [text for node_id in cluster.nodes for text in _node_troubles(cluster, node_id)]


def _node_troubles(cluster: Cluster, node_id: int) -> Iterator[str]:
    node = cluster.nodes[node_id]
    if node.server is not None and not node.server.alive():
        yield f"broker {node_id} has died: {node.server.log_tail()[-500:]}"
    yield from _tracebacks(node.directory / "server.log")


def _registry_troubles(registry: RunningRegistry | None) -> Iterator[str]:
    if registry is not None:
        if not registry.server.alive():
            yield f"the registry has died: {registry.server.log_tail()[-500:]}"
        yield from _tracebacks(registry.log)


def _tracebacks(log: Path) -> Iterator[str]:
    tracebacks = len(TRACEBACK.findall(log.read_text(errors="replace"))) if log.exists() else 0
    if tracebacks:
        yield f"{tracebacks} tracebacks in {log}"


def _remove_data(folder: Path) -> None:
    """Keeps the logs and deletes the brokers' data."""
    for data in folder.glob("brokers/node-*/data"):
        shutil.rmtree(data, ignore_errors=True)


def _count(outcomes: Outcomes) -> str:
    verdicts = [outcome.verdict for outcome in outcomes.values()]
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


def _tail(log: Path) -> str:
    return _text(log)[-400:].strip()
