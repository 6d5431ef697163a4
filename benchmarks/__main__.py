"""python -m benchmarks [--quick] [--rows produce,consume] [--only ottla|kafka] [--json FILE]"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks import apache_kafka, report
from benchmarks.bench import Bench
from benchmarks.brokers import NAMES, Broker, StartError, default_commands, start_broker
from benchmarks.conditions import busy_share, conditions
from benchmarks.figures import Meter
from benchmarks.rounds import Rounds
from benchmarks.rows import CONDITIONS, ROW_KEYS, own_rows, secured_rows, shared_rows
from benchmarks.secured_listeners import SecuredListeners
from benchmarks.settings import FULL, QUICK, Settings
from benchmarks.warm_up import warm_broker, warm_machine

REST_S = 5.0
NOISE_MAX = 0.05
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WIDE_COLUMNS = 150


def main(argv: Sequence[str] | None = None) -> int:
    given = arguments(argv)
    settings = settings_from(given)
    console = Console(width=None if sys.stdout.isatty() else WIDE_COLUMNS)
    names = [given.only] if given.only else list(NAMES)
    end_on_signals()
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))  # 1,000 connections
    try:
        apache_kafka.ensure_kafka()
        with scratch_directory(given.directory) as directory:
            bench = Bench(settings, directory, default_commands(given.ottla))
            return run(bench, console, names, given)
    except (apache_kafka.MissingError, StartError) as error:
        console.print(f"[red]{error}[/red]", highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("[red]stopped; every process is gone and the files are removed[/red]")
        return 130


def run(bench: Bench, console: Console, names: list[str], given: argparse.Namespace) -> int:
    rounds = Rounds(bench, console)
    facts = conditions(bench.settings, mode="quick" if given.quick else "full")
    facts |= {
        key: describe(bench.settings) for key, describe in CONDITIONS.items() if key in given.rows
    }
    facts["noise"] = noise(rounds)
    if bench.settings.machine_warm_up_gib:
        rounds.progress(f"warming the machine: {bench.settings.machine_warm_up_gib} GiB")
        warm_machine(bench.directory, bench.settings.machine_warm_up_gib)
    shared = [row for key, rows in shared_rows().items() if key in given.rows for row in rows]
    if shared:
        with running(bench, rounds, names) as brokers:
            facts["idle"] = idle_cpu(brokers)
            for row in shared:
                rounds.run_shared(row, brokers)
    secured = [row for key, rows in secured_rows().items() if key in given.rows for row in rows]
    if secured:
        certificates = SecuredListeners(bench.directory / "certificates")
        with running(bench, rounds, names, certificates) as brokers:
            for row in secured:
                rounds.run_shared(row, brokers)
    for key, own in own_rows().items():
        if key not in given.rows:
            continue
        if key == "growth" and not bench.settings.growth_gib:
            rounds.progress("growth is left out of a quick run; ask for it with --size-gib")
            continue
        for own_row in own:
            rounds.run_own(own_row, names)
    lines, failures = report.lines_of(rounds.collected), rounds.collected.failures
    report.print_report(console, lines, facts, failures)
    if given.json:
        given.json.write_text(json.dumps(report.as_json(lines, facts, failures), indent=1) + "\n")
    if given.markdown:
        given.markdown.write_text(report.as_markdown(lines, facts))
    return 1 if failures else 0


@contextmanager
def running(
    bench: Bench, rounds: Rounds, names: list[str], secured: SecuredListeners | None = None
) -> Generator[list[Broker], None, None]:
    """Running, warm brokers, which are stopped and deleted when the block ends."""
    with ExitStack() as stack:
        brokers = []
        for name in names:
            if secured is None:
                broker = start_broker(name, bench.directory / name, bench.commands)
            else:
                broker = secured.start(name, bench)
            stack.callback(broker.remove)
            brokers.append(broker)
            rounds.progress(f"{name} is up, pid {broker.pid}, {broker.start_s:.2f} s")
        for broker in brokers:
            rounds.progress(f"warming {broker.name}")
            try:
                warm_broker(bench, broker)
            except Exception as error:  # rows that need less than this may still work
                rounds.fail(f"warm-up of {broker.name}: {error}")
        yield brokers


def noise(rounds: Rounds) -> str:
    """The CPU use of other processes before the benchmark starts."""
    share = busy_share(REST_S)
    if share > NOISE_MAX:
        rounds.progress(
            f"[red bold]the machine is not quiet: others use {share * 100:.0f} % of its CPUs; "
            "what follows measures them too[/red bold]"
        )
    return f"others used {share * 100:.0f} % of all CPUs before the run"


def idle_cpu(brokers: Sequence[Broker]) -> str:
    """The CPU use of the broker that is idle."""
    with ExitStack() as stack:
        meters = [stack.enter_context(Meter(broker)) for broker in brokers]
        time.sleep(REST_S)
    shares = [
        f"{broker.name} {meter.cpu_s / REST_S * 100:.1f} %"
        for broker, meter in zip(brokers, meters, strict=True)
    ]
    return "CPU of a core while up and idle: " + ", ".join(shares)


@contextmanager
def scratch_directory(parent: Path) -> Generator[Path, None, None]:
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Ottla beside Apache Kafka, in one run."
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="one short round each")
    add("--rows", type=_row_keys, default=set(ROW_KEYS), help=f"some of {','.join(ROW_KEYS)}")
    add("--only", choices=NAMES, help="measure one broker")
    add("--rounds", type=int, help="measured rounds")
    add("--size-gib", type=int, help="stored data at the end of the growth row")
    add("--json", type=Path, help="write everything measured to this file")
    add("--markdown", type=Path, help="write the table to this file")
    add("--ottla", type=shlex.split, help="command that is Ottla, in place of this venv's own")
    add(
        "--directory",
        type=Path,
        default=apache_kafka.REPOSITORY / ".cache",
        help="data goes below it, on the disk that is to be measured",
    )
    return parser.parse_args(argv)


def _row_keys(text: str) -> set[str]:
    keys = set(text.split(","))
    if unknown := keys - set(ROW_KEYS):
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(sorted(unknown))}")
    return keys


def settings_from(given: argparse.Namespace) -> Settings:
    settings = QUICK if given.quick else FULL
    changes: dict[str, int] = {}
    if given.rounds is not None:
        changes["rounds"] = given.rounds
    if given.size_gib is not None:
        changes["growth_gib"] = given.size_gib
        changes["growth_steps"] = max(2, min(10, given.size_gib))
    return dataclasses.replace(settings, **changes)


def end_on_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(signal_number: int, frame: object) -> None:
    """The first signal ends the run; a second one must not interrupt the cleanup."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
