"""Positions of a redrive: which dead letters are done, within an offset and its metadata."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.redrive_position import RedrivePosition


def test_the_offset_moves_over_what_is_done() -> None:
    position = RedrivePosition(10)
    position.mark(12)
    assert (position.offset, position.is_done(12), position.is_done(11)) == (10, True, False)
    position.mark(10, 11)
    assert (position.offset, position.metadata) == (13, "")
    position.mark(5)
    assert position.offset == 13
    assert position.is_done(5)


@given(st.lists(st.integers(0, 200)), st.integers(0, 50))
def test_no_letter_is_forgotten(marked: list[int], start: int) -> None:
    position = RedrivePosition(start)
    for entry in marked:
        position.mark(entry)
        position = RedrivePosition(position.offset, position.metadata + "\0")
    for number in range(220):
        assert position.is_done(number) == (number < start or number in marked)


def test_twenty_thousand_letters_fit_however_they_were_chosen() -> None:
    position = RedrivePosition(0)
    dice = random.Random(7)
    for number in range(1, 20_000):
        if dice.random() < 0.5:
            position.mark(number)
    assert position.fits
    for number in range(1, 60_000):
        if dice.random() < 0.5:
            position.mark(number)
    assert not position.fits


def test_foreign_commit_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="no redrive has committed"):
        RedrivePosition(3, "mine!")
