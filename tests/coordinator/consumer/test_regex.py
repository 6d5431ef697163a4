"""Expressions of subscriptions: equal to Python's `re` where both are valid, and never slow."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.consumer.regex import RegexPattern
from ottla.errors import ErrorCode, KafkaError

NAMES = ["", "a", "b", "ab", "aab", "abc", "a.b", "A-b", "aaaa", "orders", "orders.eu", "x_9", "0"]

PLACES = [r"orders/\d", r"orders\s2", r".*ä", r"[^/]+", r"\S+", r".*", r"a\nb", r"(?i)ORDERS.*"]

ATOMS = st.sampled_from(
    [*"ab.x0^$", "[ab]", "[^ab]", "[a-z]", r"\.", r"\d", r"\w", r"\W", "[-a]", r"[\w.]", r"\A"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        st.tuples(
            inner.map("(?:{})".format),
            st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"]),
        ).map("".join),
    ),
    max_leaves=12,
)


@given(PATTERNS, st.one_of(st.sampled_from(NAMES), st.text("ab.x0-_", max_size=9)))
def test_a_pattern_matches_what_python_matches(pattern: str, name: str) -> None:
    # A `$` of Python also holds before a newline, which no name has.
    assert RegexPattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("orders.*", "orders-eu", True),
        ("orders.*", "my-orders", False),
        (r"^orders\.(eu|us)$", "orders.us", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        ("(?i)ORDERS", "orders", True),
        ("(?i:A)b", "aB", False),
        ("[^-_]+", "a-b", False),
        ("a{2,3}", "aaa", True),
        ("a{2,3}", "aaaa", False),
        ("a{,2}", "a", False),  # a brace that bounds nothing is a brace
        ("", "", True),
        ("a|", "a", True),
        (r"[\]a]", "a", True),
        ("[]a]", "a", True),
        ("ä", "a", False),
    ],
)
def test_syntax(pattern: str, name: str, expected: bool) -> None:
    assert RegexPattern(pattern).matches(name) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        *["(", ")", "a)", "[a", "*", "a**", "+a", r"\1", r"(a)\1", "(?=a)", "(?<!a)b", "[z-a]"],
        *["a\\", "a{1001}", "a{3,2}", r"\b", r"\pL", "[[:alpha:]]", "(?P<n>a)", "(a{100}){200}"],
        *["a" * 5000, "(" * 2000 + ")" * 2000, "^*"],
    ],
)
def test_an_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as caught:
        RegexPattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression" in str(caught.value)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a*)*(a*)*b", ".*.*.*.*.*x", "(a?){40}a{40}"]
)
def test_no_expression_is_slow(pattern: str) -> None:
    """Each of these takes a backtracking matcher longer than the broker will run."""
    began = time.thread_time()
    compiled = RegexPattern(pattern)
    compiled.matches("a" * 249)
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("pattern", ["((){1000}){1000}" * 9, r"((\Q\E){1000}(?:)+){1000}" * 9])
def test_repeated_empty_groups_match_quickly(pattern: str) -> None:
    """Each of these was repeated nine million times, which blocked the broker meanwhile."""
    began = time.thread_time()
    assert RegexPattern(pattern).matches("")
    assert not RegexPattern(pattern).matches("a")
    assert time.thread_time() - began < 1


def test_the_total_length_of_names_is_limited() -> None:
    """Linear time per name is not enough for many names and many steps."""
    pairs = [first + second for first in "abcdefgh" for second in "abcdefgh"]
    names = [
        f"{first}{second}{third}" * 20 for first in pairs for second in pairs for third in pairs[:2]
    ]
    compiled = RegexPattern("|".join(f".*{pair}.{{0,40}}" for pair in pairs))
    began = time.thread_time()
    with pytest.raises(KafkaError, match="it takes too long to match"):
        list(map(compiled.matches, names))
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "pattern", ["|".join(f".*{n:03}.{{0,40}}" for n in range(200)), "(.?){1000}", "(.*x){900}.?"]
)
def test_matching_many_names_is_fast(pattern: str) -> None:
    """The time for which it may block a broker's loop, with a margin for slow machines.

    The best of three, because a garbage collection of a test process takes as long.
    """
    names = [f"{n * 7919 % 10_007:05}-" * 20 for n in range(2000)]

    def thread_time_s() -> float:
        began = time.thread_time()
        with contextlib.suppress(KafkaError):
            compiled = RegexPattern(pattern)
            list(map(compiled.matches, names))
        return time.thread_time() - began

    assert min(thread_time_s() for _ in range(3)) < 0.3


def test_an_alphabet_may_contain_other_characters() -> None:
    ids = ["orders/1", "orders 2", "bestellungen-ä", "a\nb"]
    alphabet = frozenset("".join(ids))
    found = {text: [RegexPattern(text, alphabet).matches(id_) for id_ in ids] for text in PLACES}
    assert found == {text: [re.fullmatch(text, id_) is not None for id_ in ids] for text in PLACES}


def test_valid_expressions_stay_within_the_limit() -> None:
    names = [f"team-{n % 97}.service-{n}.events.v{n % 7}" for n in range(20_000)]
    wanted = "|".join(names[::250])
    assert sum(map(RegexPattern(wanted).matches, names)) == len(names[::250])
    assert (
        sum(map(RegexPattern(r"team-.*\.service-\d+\.(events|logs)\.v[1-5]").matches, names))
        > 10_000
    )
