"""Java's .properties syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import parse_properties

CASES = [
    ("a=1", {"a": "1"}),
    ("a = 1", {"a": "1"}),
    ("a: 1", {"a": "1"}),
    ("a 1", {"a": "1"}),
    ("  a\t=\t1", {"a": "1"}),
    ("a==1", {"a": "=1"}),
    ("a=", {"a": ""}),
    ("a", {"a": ""}),
    ("a=1 ", {"a": "1 "}),  # trailing blanks belong to the value; types strip them
    ("# a=1\n! b=2\n\n   # c=3\nd=4", {"d": "4"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=x,\\\n   y,\\\n   z", {"a": "x,y,z"}),
    ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),  # an even number of backslashes joins nothing
    ("a=x\\\n# not a comment", {"a": "x# not a comment"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\ b\\:c = d", {"a b:c": "d"}),
    ("a=\\t\\n\\u0041\\q", {"a": "\t\nAq"}),
    ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ("a=x\\", {"a": "x"}),
]


@pytest.mark.parametrize(("text", "properties"), CASES)
def test_parses_as_java_does(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_refuses_a_malformed_unicode_escape() -> None:
    with pytest.raises(ValueError, match="malformed"):
        parse_properties("a=\\u12")


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t\f"), min_size=1, max_size=20)


def escape(text: str) -> str:
    return "".join("\\" + c if c in "\\ =:#!" else c for c in text)


@given(st.dictionaries(WORD, WORD))
def test_reads_back_what_was_escaped(properties: dict[str, str]) -> None:
    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties
