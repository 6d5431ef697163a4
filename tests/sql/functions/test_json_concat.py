"""Functions that Spark calls in Python."""

from __future__ import annotations

import pytest

from ottla.sql.functions.python.json_strings import json_concat


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (('{"b": 1, "a": 2}', '{"c": 3}', '{"a": 4}'), '{"b":1,"a":4,"c":3}'),
        (("[1, 2]", "3", "[]"), "[1,2,3]"),
        (("{}", "{}"), "{}"),
        (("{}", "1"), "[{},1]"),
        (('"é"', "null"), '["é",null]'),
        (("NaN", "1"), None),
        (("", "1"), None),
        ((None, "1"), None),
    ],
)
def test_json_concat_merges_texts(texts: tuple[str | None, ...], joined: str | None) -> None:
    assert json_concat(*texts) == joined
