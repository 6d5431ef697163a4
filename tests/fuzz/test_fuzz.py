"""A short run of tools/fuzz.py with a fixed seed, and a check that it would notice faults."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import fuzz
import fuzz_damage
from fuzz_targets import Target, all_targets

SEED = 20_240_229
INPUTS = {
    "frames": 2000,
    "responses": 2500,
    "batches": 800,
    "payloads": 3000,
    "appends": 300,
    "storage": 120,
}
DRAWING = {"payloads", "appends"}  # a bound or a topic's settings, which may not fit the input


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_damaged_inputs_are_refused_cleanly_or_taken(target: Target, tmp_path: Path) -> None:
    count = INPUTS[target.name]
    [tally] = fuzz.fuzz([target], SEED, seconds=60, inputs_max=count, save=tmp_path)
    assert tally.findings == {}
    assert tally.inputs == count
    assert 0 < tally.taken < count  # both ways were walked


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_good_inputs_are_taken(target: Target) -> None:
    tally = fuzz.Tally(target)
    for number in range(40):
        assert fuzz.attempt(tally, target.make(random.Random(number))) is None
    if target.name in DRAWING:
        assert tally.taken >= 20
    else:
        assert tally.taken == 40


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_a_seed_repeats_its_inputs(target: Target) -> None:
    inputs = [fuzz.damaged(target, random.Random(number)) for number in range(20)]
    assert inputs == [fuzz.damaged(target, random.Random(number)) for number in range(20)]
    assert len(set(inputs)) > 12


class Fragile:
    """Fails on a byte that good inputs lack."""

    name = "fragile"

    def make(self, source: random.Random) -> bytes:
        return bytes(20)

    def damage(self, data: bytearray, source: random.Random) -> None:
        fuzz_damage.mutate(data, source)

    def run(self, data: bytes, source: random.Random) -> bool:
        if b"\xff" in data:
            raise ZeroDivisionError(f"as planned, {len(data)}")
        return True


def test_a_finding_is_printed_saved_and_found_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Fragile()
    [tally] = fuzz.fuzz([target], SEED, seconds=60, inputs_max=2000, save=tmp_path)
    [(kind, count)] = tally.findings.items()
    assert "ZeroDivisionError: as planned" in kind
    assert count > 1
    output = capsys.readouterr().out
    [saved] = tmp_path.glob("fragile-*.bin")
    assert f"of seed {SEED}, saved as" in output
    assert saved.name in output
    assert fuzz.replay([target], saved) == 1
    assert "as planned" in capsys.readouterr().out


def test_an_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "SLOW_SECONDS", -1.0)
    assert "took" in (fuzz.attempt(fuzz.Tally(Fragile()), b"fine") or "")


@pytest.mark.parametrize("mutation", fuzz_damage.MUTATIONS)
@pytest.mark.parametrize("size", [0, 1, 3, 100])
def test_mutations_take_inputs_of_any_size(mutation: fuzz_damage.Mutation, size: int) -> None:
    for number in range(50):
        data = bytearray(size)
        mutation(data, random.Random(number))
        assert len(data) <= 2 * size + 100
