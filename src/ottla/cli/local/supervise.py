"""The foreground of `ottla up` and `ottla cluster up`: start, show, watch, end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.local_service import LocalService
from ottla.cli.local.run_records import RunRecord
from ottla.cli.local.stack import WATCH_EVERY_S, ServiceEnded, Stack
from ottla.cli.local.stack_view import StackView, print_failure
from ottla.cli.local.stop_signals import StopSignals
from ottla.cli.output import console


def supervise(
    stack: Stack,
    services: Sequence[LocalService],
    say_ready: Callable[[float], None],
    *,
    detach: bool,
) -> int:
    """The exit code: 0 after an end that was asked for, 1 if a service does not start or all have
    ended by themselves. With `detach` it returns when all are ready."""
    if stack.is_alive or stack.supervisor is not None:
        raise ToolError(
            f"it runs already, with data in {stack.folder}:"
            f" `{stack.started_by.removesuffix('up')}status` shows it,"
            f" `{stack.started_by.removesuffix('up')}down` ends it"
        )
    stack.forget()
    with StopSignals() as signals:
        stack.supervise()
        try:
            took_s = _start(stack, services, signals)
        except ServiceEnded as failure:
            print_failure(failure.record, failure.words)
            _end(stack, signals)
            return 1
        except BaseException:
            _end(stack, signals)
            raise
        if took_s is None:
            return _end(stack, signals)
        say_ready(took_s)
        if detach:
            return 0
        return _watch(stack, signals) or _end(stack, signals)


def _start(stack: Stack, services: Sequence[LocalService], signals: StopSignals) -> float | None:
    """How long it took; None if somebody asked for an end before."""
    with StackView(services) as view:
        for wave in sorted({each.wave for each in services}):
            members = [each for each in services if each.wave == wave]
            started = []
            for service in members:
                view.starting(service)
                started.append(stack.launch(service))
            if not stack.wait_until_ready(started, view.show, signals):
                return None
        return view.took_s


def _watch(stack: Stack, signals: StopSignals) -> int:
    """Until somebody asks for an end. A service that ends is reported; the others go on."""
    known = {each.name: each for each in stack.services}
    gone: set[str] = set()
    while not signals.asked:
        stack.reap()
        records = {each.name: each for each in stack.services}
        if not records and not any(each.is_alive for each in known.values()):
            return 0  # `down`, from another terminal, has ended and forgotten them
        for name, record in records.items():
            _report(stack, known[name], record, gone)
            known[name] = record
        if records and gone == set(records):
            console().print("[bold red]no service runs any more[/]")
            stack.forget()
            return 1
        time.sleep(WATCH_EVERY_S)
    return 0


def _report(stack: Stack, before: RunRecord, now: RunRecord, gone: set[str]) -> None:
    """What has changed of one service, in a line, or with its log."""
    if now.is_alive:
        if now.name in gone or (before.process != now.process and not now.note):
            console().print(f"{now.name} runs again, with pid {now.process.pid}")
        gone.discard(now.name)
    elif now.name not in gone:
        gone.add(now.name)
        if now.note:
            console().print(f"{now.name} {now.note}")
        else:
            print_failure(now, stack.last_words(now))


def _end(stack: Stack, signals: StopSignals) -> int:
    out = console()

    def say(words: str) -> None:
        with suppress(OSError):  # a terminal that was closed; the services must end all the same
            out.print(words, highlight=False)

    running = [each for each in stack.services if each.is_alive]
    if running:
        names = ", ".join(each.name for each in reversed(running))
        say(f"\nstops {names} [dim](Ctrl-C again: at once)[/] ...")
    began = time.monotonic()

    def show(record: RunRecord) -> None:
        say(f"{record.name} stopped [dim]after {time.monotonic() - began:.1f} s[/]")

    first = signals.count
    stack.end(show, lambda: signals.count > max(first, 1))
    say("all stopped")
    return 0
