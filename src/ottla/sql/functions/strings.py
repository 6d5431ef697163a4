"""Text, and bytes where the same can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.rows.types import Kind
from ottla.sql.functions.declare import scalar, signature
from ottla.sql.functions.python import strings as python
from ottla.sql.functions.python_form import with_nulls
from ottla.sql.functions.table import Call, Signature

FAMILY: Final = "Strings"
LATIN: Final = "'ISO-8859-1'"
"""Each byte is one character in it: bytes can be handled as text and come back unharmed."""

_TRIMMED: Final = r"regexp_replace({0}, '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '')"
_CHARACTERS: Final = r"regexp_extract_all({0}, '(?s).', 0)"
_QUOTED: Final = r"concat('\\Q', replace({0}, '\\E', '\\E\\\\E\\Q'), '\\E')"
_ONE_UNIT: Final = r"'^\\\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}$'"
_TWO_UNITS: Final = r"'^\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}$'"


def _latin(text: str) -> str:
    return f"decode({text}, {LATIN})"


def split_text(value: str, delimiter: str, constant: object = None) -> str:
    """Split at a text; Spark splits at a pattern. No delimiter: into characters."""
    split = f"split({value}, {_QUOTED.format(delimiter)}, -1)"
    if isinstance(constant, str) and constant:
        return split
    characters = f"IF({value} = '', array(''), {_CHARACTERS.format(value)})"
    return f"CASE WHEN {delimiter} = '' THEN {characters} ELSE {split} END"


def _split_bytes(call: Call) -> str:
    parts = split_text(_latin(call.texts[0]), _latin(call.texts[1]))
    return f"transform({parts}, b -> encode(b, {LATIN}))"


def _split_to_map(call: Call) -> str:
    value, entry_end, key_end = call.texts
    entries = (
        f"filter(split({value}, {_QUOTED.format(entry_end)}, -1), __e -> instr(__e, {key_end}) > 0)"
    )
    pair = (
        f"__e -> struct(substring_index(__e, {key_end}, 1), "
        f"split(__e, {_QUOTED.format(key_end)}, -1)[1])"
    )
    made = f"map_from_entries(transform({entries}, {pair}))"
    return f"CASE WHEN {entry_end} <> '' AND {key_end} <> '' THEN {made} END"


def _concat(call: Call) -> str:
    empty = "X''" if call.returns.kind is Kind.BYTES else "''"
    return f"concat({', '.join(f'coalesce({each}, {empty})' for each in call.texts)})"


def _concat_bytes_with(call: Call) -> str:
    parts = ", ".join(_latin(each) for each in call.texts)
    return f"encode(concat_ws({parts}), {LATIN})"


def _places(call: Call) -> str:
    """INSTR from a place, forwards or (below zero) backwards, to the nth occurrence."""
    text, part, place = call.texts[:3]
    occurrence = call.texts[3] if len(call.texts) > 3 else "1"
    all_places = (
        f"filter(sequence(1, greatest(length({text}), 1)), "
        f"__i -> substring({text}, __i, length({part})) = {part})"
    )
    forwards = f"filter({all_places}, __i -> __i >= {place})"
    backwards = f"reverse(filter({all_places}, __i -> __i <= length({text}) + {place} + 1))"
    found = f"IF({place} >= 0, {forwards}, {backwards})"
    return (
        f"IF({text} IS NULL OR {part} IS NULL OR {place} IS NULL OR {occurrence} IS NULL, NULL, "
        f"coalesce(get({found}, {occurrence} - 1), 0))"
    )


def _padded(name: str, compute: Callable[..., Any]) -> list[Signature]:
    text = f"CASE WHEN length({{2}}) > 0 AND {{1}} >= 0 THEN {name}({{0}}, {{1}}, {{2}}) END"
    return [
        signature("STRING input, INTEGER length, STRING padding -> STRING", text, python=compute),
        signature("BYTES input, INTEGER length, BYTES padding -> BYTES", text, python=compute),
    ]


MASKS: Final = "STRING upper, STRING lower, STRING digit, STRING other"


def _masked(spark: str, compute: Callable[..., Any]) -> list[Signature]:
    """`spark` has MASK(...) for what is hidden: with the usual characters, or with given ones."""

    def with_(characters: str) -> str:
        return spark.replace("MASK(", "mask(").replace(";", characters)

    form = with_nulls(compute)
    usual = "'X', 'x', 'n', '-'"
    if "{1}" not in spark:
        given = "{1}, {2}, {3}, {4}"
        return [
            signature("STRING input -> STRING", with_(usual), python=form),
            signature(f"STRING input, {MASKS} -> STRING", with_(given), python=form),
        ]
    given = "{2}, {3}, {4}, {5}"
    return [
        signature("STRING input, INTEGER count -> STRING", with_(usual), python=form),
        signature(f"STRING input, INTEGER count, {MASKS} -> STRING", with_(given), python=form),
    ]


MASKING: Final = (
    scalar(
        "MASK",
        FAMILY,
        "The text with its characters hidden: `X` for upper case, `x` for lower case, `n` for "
        "digits, `-` for the rest, or the four that are given. A NULL: such stay.",
        *_masked("MASK({0}, ;)", python.masked),
    ),
    scalar(
        "MASK_KEEP_LEFT",
        FAMILY,
        "MASK for all but the first `count` characters.",
        *_masked(
            "concat(left({0}, {1}), MASK(substring({0}, greatest({1}, 0) + 1), ;))",
            python.mask_keep_left,
        ),
    ),
    scalar(
        "MASK_KEEP_RIGHT",
        FAMILY,
        "MASK for all but the last `count` characters.",
        *_masked(
            "concat(MASK(left({0}, greatest(length({0}) - {1}, 0)), ;), right({0}, {1}))",
            python.mask_keep_right,
        ),
    ),
    scalar(
        "MASK_LEFT",
        FAMILY,
        "MASK for the first `count` characters.",
        *_masked(
            "concat(MASK(left({0}, {1}), ;), substring({0}, greatest({1}, 0) + 1))",
            python.mask_left,
        ),
    ),
    scalar(
        "MASK_RIGHT",
        FAMILY,
        "MASK for the last `count` characters.",
        *_masked(
            "concat(left({0}, greatest(length({0}) - {1}, 0)), MASK(right({0}, {1}), ;))",
            python.mask_right,
        ),
    ),
)

CASES: Final = (
    scalar(
        "INITCAP",
        FAMILY,
        "Each word with a capital at its beginning, and small letters after it.",
        signature("STRING value -> STRING", "initcap({0})", python=python.capitals),
    ),
    scalar(
        "LCASE",
        FAMILY,
        "The text in lower case.",
        signature("STRING value -> STRING", "lower({0})", python=str.lower),
    ),
    scalar(
        "UCASE",
        FAMILY,
        "The text in upper case.",
        signature("STRING value -> STRING", "upper({0})", python=str.upper),
    ),
    scalar(
        "TRIM",
        FAMILY,
        "The text without white space at its ends.",
        signature("STRING value -> STRING", _TRIMMED, python=python.trimmed),
    ),
    scalar(
        "LPAD",
        FAMILY,
        "The input with padding before it, or cut, so that it has that length. NULL where the "
        "padding is empty or the length below zero.",
        *_padded("lpad", python.padded_left),
    ),
    scalar(
        "RPAD",
        FAMILY,
        "The input with padding after it, or cut, so that it has that length. NULL where the "
        "padding is empty or the length below zero.",
        *_padded("rpad", python.padded_right),
    ),
)

PARTS: Final = (
    scalar(
        "CHR",
        FAMILY,
        r"The character with that Unicode number, or that `\uXXXX` stands for.",
        signature(
            "INTEGER code -> STRING",
            "CASE WHEN {0} BETWEEN 0 AND 1114111 AND NOT {0} BETWEEN 55296 AND 57343 "
            "THEN decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32') END",
            python=python.character,
        ),
        signature(
            "STRING code -> STRING",
            lambda call: (
                f"CASE WHEN regexp_like({call.texts[0]}, {_ONE_UNIT}) "
                f"OR regexp_like({call.texts[0]}, {_TWO_UNITS}) THEN "
                rf"decode(unhex(replace({call.texts[0]}, '\\u', '')), 'UTF-16BE') END"
            ),
            python=python.character_of_escape,
        ),
    ),
    scalar(
        "CONCAT",
        FAMILY,
        "The arguments one after the other; a NULL is empty.",
        signature("STRING... values -> STRING", _concat, python=with_nulls(python.joined)),
        signature("BYTES... values -> BYTES", _concat, python=with_nulls(python.joined_bytes)),
    ),
    scalar(
        "CONCAT_WS",
        FAMILY,
        "The arguments one after the other with a separator between them; a NULL is left out.",
        signature(
            "STRING separator, STRING... values -> STRING",
            "concat_ws({all})",
            python=with_nulls(python.joined_with),
        ),
        signature(
            "BYTES separator, BYTES... values -> BYTES",
            _concat_bytes_with,
            python=with_nulls(python.joined_with),
        ),
    ),
    scalar(
        "ELT",
        FAMILY,
        "The nth of the texts after n, counted from 1; NULL where there is none.",
        signature(
            "INTEGER n, STRING... values -> STRING", "elt({all})", python=with_nulls(python.nth)
        ),
    ),
    scalar(
        "FIELD",
        FAMILY,
        "The place of the first text among the others, counted from 1; 0 where it is not there.",
        signature(
            "STRING value, STRING... values -> INTEGER",
            lambda call: (
                f"CAST(coalesce(array_position(array({', '.join(call.texts[1:])}), "
                f"{call.texts[0]}), 0) AS int)"
            ),
            python=with_nulls(python.place_among),
        ),
    ),
    scalar(
        "INSTR",
        FAMILY,
        "Where a text begins in another, counted from 1; 0 where it does not. From a place on "
        "(backwards from the end if below zero), and the nth time.",
        signature("STRING text, STRING part -> INTEGER", "instr({0}, {1})", python=python.place_in),
        signature(
            "STRING text, STRING part, INTEGER place -> INTEGER",
            _places,
            python=python.nth_place_in,
        ),
        signature(
            "STRING text, STRING part, INTEGER place, INTEGER n -> INTEGER",
            _places,
            python=python.nth_place_in,
        ),
    ),
    scalar(
        "LEN",
        FAMILY,
        "How many characters a text has, or how many bytes.",
        signature("STRING value -> INTEGER", "length({0})", python=len),
        signature("BYTES value -> INTEGER", "length({0})", python=len),
    ),
    scalar(
        "REPLACE",
        FAMILY,
        "The text with another in each place where a part was.",
        signature(
            "STRING text, STRING part, STRING other -> STRING",
            "IF({2} IS NULL, NULL, replace({all}))",
            python=python.replaced,
        ),
    ),
    scalar(
        "SPLIT",
        FAMILY,
        "What lies between the delimiters; with an empty one, each character by itself.",
        signature(
            "STRING text, STRING delimiter -> ARRAY<STRING>",
            lambda call: split_text(call.texts[0], call.texts[1], call.constants[1]),
            python=python.split,
        ),
        signature(
            "BYTES bytes, BYTES delimiter -> ARRAY<BYTES>",
            _split_bytes,
            python=python.split_bytes,
        ),
    ),
    scalar(
        "SPLIT_TO_MAP",
        FAMILY,
        "A map of a text such as `a:1/b:2`, split at one delimiter into entries and at the other "
        "into key and value. What has no key is left out, and the last of the same key counts.",
        signature(
            "STRING text, STRING entries, STRING pairs -> MAP<STRING, STRING>",
            _split_to_map,
            python=python.split_to_map,
        ),
    ),
    scalar(
        "SUBSTRING",
        FAMILY,
        "The part from a place on, counted from 1 (from the end if below zero), up to a length.",
        *[
            signature(
                f"{kind} value, INTEGER place{length} -> {kind}",
                "substring({all})",
                python=python.part_of,
            )
            for kind in ("STRING", "BYTES")
            for length in ("", ", INTEGER length")
        ],
    ),
    scalar(
        "UUID",
        FAMILY,
        "A random UUID, or the one that 16 bytes are.",
        signature("-> STRING", "uuid()", python=python.random_uuid),
        signature(
            "BYTES bytes -> STRING",
            lambda call: (
                f"CASE WHEN length({call.texts[0]}) = 16 THEN lower(regexp_replace("
                f"hex({call.texts[0]}), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', "
                "'$1-$2-$3-$4-$5')) END"
            ),
            python=python.uuid_of,
        ),
    ),
)

STRINGS: Final = (*CASES, *MASKING, *PARTS)
