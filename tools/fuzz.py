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
import random
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fuzz_targets import Target, all_targets

SLOW_SECONDS = 2.0  # of processor time for one input: none needs a hundredth of it
MUTATIONS_MAX = 6
SIZE_MAX = 256 * 1024
FINDINGS_MAX = 20  # of one target, after which it is left alone
ROUND_SECONDS = 1.0  # for which a target runs before it is the next one's turn

EDGES_8 = (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
EDGES_16 = (0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
EDGES_32 = (0, 1, 0x7F, 0x80, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
EDGES_64 = (0, 1, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFFFFFFFFFF, 1 << 63, (1 << 64) - 1)
VARINTS = (
    b"\x80\x80\x80\x80\x08",  # 2^31
    b"\xff\xff\xff\xff\x0f",  # the largest of 32 bits
    b"\xff\xff\xff\xff\x7f",  # 35 bits
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff" * 11,
)


class Tally:
    """What one target did."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.inputs = 0
        self.taken = 0
        self.findings: list[str] = []


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
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    print(f"seed {seed}, targets: {', '.join(target.name for target in chosen)}", flush=True)
    tallies = fuzz(chosen, seed, seconds=options.minutes * 60, save=options.save)
    for tally in tallies:
        print(
            f"{tally.target.name}: {tally.inputs} inputs, {tally.taken} taken,"
            f" {len(tally.findings)} findings"
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
    """Run the targets in turns until the time is over, or each has had `inputs_max` inputs."""
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
        if problem is not None:
            where = keep(tally.target, data, save)
            tally.findings.append(problem)
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
    for _ in range(source.randint(1, MUTATIONS_MAX)):
        source.choice(MUTATIONS)(data, source)
    del data[SIZE_MAX:]
    if source.random() < 0.7:
        target.mend(data, source)
    return bytes(data)


def attempt(tally: Tally, data: bytes) -> str | None:
    """What went wrong, as text; None if nothing did. Chance depends on the input alone."""
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


# Damage -------------------------------------------------------------------------------------------


def _somewhere(data: bytearray, source: random.Random, size: int = 1) -> int:
    """A position; heads of inputs hold most of the structure, and so they are hit more often."""
    end = max(1, len(data) - size + 1)
    return source.randrange(min(end, 80) if source.random() < 0.5 else end)


def flip_bit(data: bytearray, source: random.Random) -> None:
    if data:
        data[_somewhere(data, source)] ^= 1 << source.randrange(8)


def set_byte(data: bytearray, source: random.Random) -> None:
    if data:
        edge = source.choice(EDGES_8) if source.random() < 0.5 else source.randrange(256)
        data[_somewhere(data, source)] = edge


def set_number(data: bytearray, source: random.Random) -> None:
    layout, edges = source.choice(((">H", EDGES_16), (">I", EDGES_32), (">Q", EDGES_64)))
    size = struct.calcsize(layout)
    if len(data) >= size:
        struct.pack_into(layout, data, _somewhere(data, source, size), source.choice(edges))


def nudge_number(data: bytearray, source: random.Random) -> None:
    """Off by a little: lengths and counts that nearly fit."""
    layout = source.choice((">H", ">I", ">Q"))
    size = struct.calcsize(layout)
    if len(data) >= size:
        position = _somewhere(data, source, size)
        (number,) = struct.unpack_from(layout, data, position)
        number = (number + source.choice((-8, -2, -1, 1, 2, 8))) % (1 << 8 * size)
        struct.pack_into(layout, data, position, number)


def put_varint(data: bytearray, source: random.Random) -> None:
    position = _somewhere(data, source)
    varint = source.choice(VARINTS)
    data[position : position + source.randrange(2) * len(varint)] = varint


def cut_off(data: bytearray, source: random.Random) -> None:
    if data:
        del data[source.randrange(len(data)) :]


def remove_some(data: bytearray, source: random.Random) -> None:
    if data:
        position = _somewhere(data, source)
        del data[position : position + source.randint(1, 16)]


def insert_some(data: bytearray, source: random.Random) -> None:
    position = _somewhere(data, source)
    some = source.randbytes(source.randint(1, 16))
    data[position:position] = some if source.random() < 0.7 else bytes(len(some))


def copy_some(data: bytearray, source: random.Random) -> None:
    start = _somewhere(data, source)
    piece = data[start : start + source.randint(1, 64)]
    position = _somewhere(data, source)
    data[position : position + source.randrange(2) * len(piece)] = piece


def repeat_all(data: bytearray, source: random.Random) -> None:
    if len(data) < SIZE_MAX // 4:
        data *= 2


Mutation = Callable[[bytearray, random.Random], None]

MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    set_number,
    nudge_number,
    put_varint,
    cut_off,
    remove_some,
    insert_some,
    copy_some,
    repeat_all,
)


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


if __name__ == "__main__":
    sys.exit(main())
