"""Random damage to everything that reads bytes from outside: `python tools/fuzz.py --minutes 5`.

Good inputs are made by our own writers, damaged by a seeded random source and given to a target,
which may refuse them in its one clean way or take them, but do nothing else: another exception, a
contradiction or a slow answer is a finding. It is printed with the seed and the input's number, and
the input is saved; `--replay FILE` runs it again. Input n of a target depends on seed, target and n
only.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from fuzz_targets import Target, all_targets

SLOW_SECONDS = 2.0  # of processor time for one input: none needs a hundredth of it
FINDINGS_MAX = 20  # kinds of findings of one target, after which it is left alone
ROUND_SECONDS = 1.0  # for which a target runs before it is the next one's turn


class Tally:
    """The counts of one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.inputs = 0
        self.taken = 0
        self.findings: dict[str, int] = {}  # by kind


def main(arguments: Sequence[str] | None = None) -> int:
    targets = {target.name: target for target in all_targets()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--target", choices=sorted(targets), action="append", default=[])
    parser.add_argument("--save", type=Path, default=None, help="directory for findings")
    parser.add_argument(
        "--replay", type=Path, default=None, help="one saved input; --target says where"
    )
    options = parser.parse_args(arguments)
    chosen = [targets[name] for name in options.target or targets]
    if options.replay is not None:
        return replay(chosen, options.replay)
    logging.disable()  # of damage that was noticed
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    print(f"seed {seed}, targets: {', '.join(target.name for target in chosen)}", flush=True)
    tallies = fuzz(chosen, seed, seconds=options.minutes * 60, save=options.save)
    for tally in tallies:
        print(
            f"{tally.target.name}: {tally.inputs} inputs, {tally.taken} taken,"
            f" {len(tally.findings)} kinds of findings"
        )
    return 1 if any(tally.findings for tally in tallies) else 0


def fuzz(
    targets: Iterable[Target],
    seed: int,
    *,
    seconds: float,
    inputs_max: int | None = None,
    save: Path | None = None,
) -> list[Tally]:
    """Run the targets in turn until the time is up, or each has had `inputs_max` inputs."""
    tallies = [Tally(target) for target in targets]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        busy = [
            tally
            for tally in tallies
            if len(tally.findings) < FINDINGS_MAX
            and (inputs_max is None or tally.inputs < inputs_max)
        ]
        if not busy:
            break
        for tally in busy:
            _round(tally, seed, min(deadline, time.monotonic() + ROUND_SECONDS), inputs_max, save)
    return tallies


def _round(
    tally: Tally, seed: int, deadline: float, inputs_max: int | None, save: Path | None
) -> None:
    while time.monotonic() < deadline and (inputs_max is None or tally.inputs < inputs_max):
        number = tally.inputs
        source = random.Random(f"{seed}:{tally.target.name}:{number}")
        data = damaged(tally.target, source)
        tally.inputs += 1
        problem = attempt(tally, data)
        if problem is None:
            continue
        kind = kind_of(problem)
        tally.findings[kind] = tally.findings.get(kind, 0) + 1
        if tally.findings[kind] == 1:
            where = keep(tally.target, data, save)
            print(f"\n{tally.target.name}: input {number} of seed {seed}, saved as {where}")
            print(problem, flush=True)
            if len(tally.findings) >= FINDINGS_MAX:
                return


def damaged(target: Target, source: random.Random) -> bytes:
    """An input: one in eight stays good, one in sixteen is noise, the rest is changed a little."""
    data = bytearray(target.make(source))
    fate = source.random()
    if fate < 1 / 16:
        return source.randbytes(source.randrange(200))
    if fate > 7 / 8:
        return bytes(data)
    target.damage(data, source)
    return bytes(data)


def attempt(tally: Tally, data: bytes) -> str | None:
    """The failure as text, or None. Random choices depend on the input alone."""
    start = time.process_time()
    try:
        if tally.target.run(data, random.Random(data)):
            tally.taken += 1
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic in Rust is not an Exception
        return traceback.format_exc(limit=-6)
    seconds = time.process_time() - start
    return f"took {seconds:.1f} s" if seconds > SLOW_SECONDS else None


def kind_of(problem: str) -> str:
    """Equal for findings that differ in numbers only; repeated ones are counted, not printed."""
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    frames = [line for line in lines if line.startswith("File ")]
    return re.sub(r"\d+|0x\w+", "#", " ".join([*frames[-1:], lines[-1]]))[:200]


def keep(target: Target, data: bytes, save: Path | None) -> Path:
    directory = Path(tempfile.gettempdir()) / "ottla-fuzz" if save is None else save
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{target.name}-{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def replay(targets: list[Target], path: Path) -> int:
    """The target is the first part of a saved input's name, unless one was chosen."""
    named = [target for target in targets if path.name.startswith(target.name + "-")]
    tally = Tally((named or targets)[0])
    problem = attempt(tally, path.read_bytes())
    print(f"{tally.target.name}: {problem or ('taken' if tally.taken else 'refused')}")
    return 1 if problem else 0


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


if __name__ == "__main__":
    sys.exit(main())
