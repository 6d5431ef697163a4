"""The foreground of `ottla up` and `ottla cluster up`: start, show, watch, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla.cli.console import console
from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.local_service import LocalService
from ottla.cli.local.run_records import FOLDER, RunRecord
from ottla.cli.local.stack import WATCH_EVERY_S, ServiceFailure, Stack
from ottla.cli.local.stack_view import StackView, print_failure
from ottla.cli.local.stop_signals import StopSignals


def supervise(
    stack: Stack,
    services: Sequence[LocalService],
    say_ready: Callable[[float], None],
    *,
    detach: bool,
) -> int:
    """Returns the exit code: 0 after a requested stop, 1 if a service does not start or all have
    ended on their own. With `detach` it returns once all are ready."""
    if stack.is_alive or stack.supervisor is not None:
        raise ToolError(
            f"it runs already, with data in {stack.folder}:"
            f" `{stack.started_by.removesuffix('up')}status` shows it,"
            f" `{stack.started_by.removesuffix('up')}down` ends it"
        )
    stack.forget()
    with StopSignals() as signals:
        try:
            stack.supervise()
            took_s = _start(stack, services, signals)
        except ServiceFailure as failure:
            print_failure(failure.record, failure.words)
            _end(stack, signals)
            return 1
        except OSError as error:
            _end(stack, signals)
            if isinstance(error, BrokenPipeError):
                raise
            raise ToolError(_unwritable(stack, error)) from error
        except BaseException:
            _end(stack, signals)
            raise
        if took_s is None:
            return _end(stack, signals)
        say_ready(took_s)
        if detach:
            return 0
        return _watch(stack, signals) or _end(stack, signals)


def _unwritable(stack: Stack, error: OSError) -> str:
    path = error.filename or f"{stack.folder} or {stack.records.folder}"
    return (
        f"can't write {path}: {error.strerror or error}."
        f" --data chooses another data folder, {FOLDER} another one for run records."
    )


def _start(stack: Stack, services: Sequence[LocalService], signals: StopSignals) -> float | None:
    """Returns how long the start took; None if the user stopped it first."""
    with StackView(services) as view:
        for wave in sorted({listed.wave for listed in services}):
            members = [listed for listed in services if listed.wave == wave]
            started = []
            for service in members:
                view.starting(service)
                started.append(stack.launch(service))
            if not stack.wait_until_ready(started, view.show, signals):
                return None
        return view.took_s


def _watch(stack: Stack, signals: StopSignals) -> int:
    """Watch until the user stops it. A service that ends is reported; the others go on."""
    known = {service.name: service for service in stack.services}
    gone: set[str] = set()
    while not signals.stopping:
        stack.reap()
        records = {service.name: service for service in stack.services}
        if not records and not any(record.is_alive for record in known.values()):
            return 0  # `down` in another terminal has stopped and forgotten them
        for name, record in records.items():
            _report(stack, known[name], record, gone)
            known[name] = record
        if records and gone == set(records):
            console().print("[bold red]no service is running[/]")
            stack.forget()
            return 1
        time.sleep(WATCH_EVERY_S)
    return 0


def _report(stack: Stack, before: RunRecord, now: RunRecord, gone: set[str]) -> None:
    """Report a service that has ended or was restarted."""
    if now.is_alive:
        if now.name in gone or (before.process != now.process and not now.note):
            console().print(f"{now.name} runs again, with pid {now.process.pid}")
        gone.discard(now.name)
    elif now.name not in gone and not now.is_restarting:
        gone.add(now.name)
        if now.note:
            console().print(f"{now.name} {now.note}")
        else:
            print_failure(now, stack.log_tail(now))


def _end(stack: Stack, signals: StopSignals) -> int:
    out = console()

    def say(words: str) -> None:
        with suppress(OSError):  # the terminal may be closed; the services must stop anyway
            out.print(words, highlight=False)

    running = [service for service in stack.services if service.is_alive]
    if running:
        names = ", ".join(service.name for service in reversed(running))
        say(f"\nstopping {names} [dim](Ctrl-C again: at once)[/] ...")
    began = time.monotonic()

    def show(record: RunRecord) -> None:
        say(f"{record.name} stopped [dim]after {time.monotonic() - began:.1f} s[/]")

    first = signals.count
    stack.end(show, lambda: signals.count > max(first, 1))
    say("all stopped")
    return 0
