"""Functions of strings, some of which also work on bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.rows.types import SqlBaseType
from ottla.sql.functions.function_registry import Call, Signature
from ottla.sql.functions.python import strings as python
from ottla.sql.functions.python_form import with_nulls
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Strings"
LATIN: Final = "'ISO-8859-1'"
"""An encoding with one character per byte, so that bytes can be processed as text."""

_TRIMMED: Final = r"regexp_replace({0}, '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '')"
_CHARACTERS: Final = r"regexp_extract_all({0}, '(?s).', 0)"
_QUOTED: Final = r"concat('\\Q', replace({0}, '\\E', '\\E\\\\E\\Q'), '\\E')"
_ONE_UNIT: Final = r"'^\\\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}$'"
_TWO_UNITS: Final = r"'^\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}$'"


def _latin(text: str) -> str:
    return f"decode({text}, {LATIN})"


def split_text(value: str, delimiter: str, constant: object = None) -> str:
    """Split at a literal text, while Spark splits at a pattern; without delimiter, into
    characters."""
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
    empty = "X''" if call.returns.kind is SqlBaseType.BYTES else "''"
    return f"concat({', '.join(f'coalesce({text}, {empty})' for text in call.texts)})"


def _concat_bytes_with(call: Call) -> str:
    parts = ", ".join(_latin(text) for text in call.texts)
    return f"encode(concat_ws({parts}), {LATIN})"


def _instr(call: Call) -> str:
    """INSTR: the nth occurrence from a position on, or backward from the end if it is negative."""
    text, part, position = call.texts[:3]
    occurrence = call.texts[3] if len(call.texts) > 3 else "1"
    positions = (
        f"filter(sequence(1, greatest(length({text}), 1)), "
        f"__i -> substring({text}, __i, length({part})) = {part})"
    )
    forwards = f"filter({positions}, __i -> __i >= {position})"
    backwards = f"reverse(filter({positions}, __i -> __i <= length({text}) + {position} + 1))"
    found = f"IF({position} >= 0, {forwards}, {backwards})"
    return (
        f"IF({text} IS NULL OR {part} IS NULL OR {position} IS NULL OR {occurrence} IS NULL, NULL, "
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
    """In `spark` MASK(...) marks the part to mask, with default or with given characters."""

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
        "Masks the characters of a text: `X` for upper case, `x` for lower case, `n` for digits, "
        "`-` for others, or the four given characters. With NULL that class is not masked.",
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
        "Capitalizes the first letter of each word; other letters become lower case.",
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
        "The text without leading and trailing white space.",
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
        r"The character with a Unicode code point, or of an escape such as `\uXXXX`.",
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
        "Concatenates the arguments; NULL counts as empty.",
        signature("STRING... values -> STRING", _concat, python=with_nulls(python.concat_strings)),
        signature("BYTES... values -> BYTES", _concat, python=with_nulls(python.concat_bytes)),
    ),
    scalar(
        "CONCAT_WS",
        FAMILY,
        "Concatenates the arguments with a separator between them; NULLs are skipped.",
        signature(
            "STRING separator, STRING... values -> STRING",
            "concat_ws({all})",
            python=with_nulls(python.concat_ws),
        ),
        signature(
            "BYTES separator, BYTES... values -> BYTES",
            _concat_bytes_with,
            python=with_nulls(python.concat_ws),
        ),
    ),
    scalar(
        "ELT",
        FAMILY,
        "The nth of the texts, starting at 1; NULL if there is none.",
        signature(
            "INTEGER n, STRING... values -> STRING", "elt({all})", python=with_nulls(python.nth)
        ),
    ),
    scalar(
        "FIELD",
        FAMILY,
        "The position of the first text among the others, starting at 1; 0 if it is not there.",
        signature(
            "STRING value, STRING... values -> INTEGER",
            lambda call: (
                f"CAST(coalesce(array_position(array({', '.join(call.texts[1:])}), "
                f"{call.texts[0]}), 0) AS int)"
            ),
            python=with_nulls(python.position_among),
        ),
    ),
    scalar(
        "INSTR",
        FAMILY,
        "The position of a text in another, starting at 1; 0 if it is not there. Optionally from a "
        "position on (backward from the end if negative), and of the nth occurrence.",
        signature(
            "STRING text, STRING part -> INTEGER", "instr({0}, {1})", python=python.position_in
        ),
        signature(
            "STRING text, STRING part, INTEGER position -> INTEGER",
            _instr,
            python=python.nth_position,
        ),
        signature(
            "STRING text, STRING part, INTEGER position, INTEGER occurrence -> INTEGER",
            _instr,
            python=python.nth_position,
        ),
    ),
    scalar(
        "LEN",
        FAMILY,
        "The number of characters of a text, or the number of bytes.",
        signature("STRING value -> INTEGER", "length({0})", python=len),
        signature("BYTES value -> INTEGER", "length({0})", python=len),
    ),
    scalar(
        "REPLACE",
        FAMILY,
        "The text with all occurrences of a part replaced.",
        signature(
            "STRING text, STRING part, STRING other -> STRING",
            "IF({2} IS NULL, NULL, replace({all}))",
            python=python.replaced,
        ),
    ),
    scalar(
        "SPLIT",
        FAMILY,
        "The parts between delimiters; with an empty delimiter, the single characters.",
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
        "Makes a map of a text such as `a:1/b:2`: one delimiter splits it into entries, the other "
        "splits key and value. Entries without key are left out; the last one of a key wins.",
        signature(
            "STRING text, STRING entries, STRING pairs -> MAP<STRING, STRING>",
            _split_to_map,
            python=python.split_to_map,
        ),
    ),
    scalar(
        "SUBSTRING",
        FAMILY,
        "The part from a position on, starting at 1 (from the end if negative), up to a length.",
        *[
            signature(
                f"{kind} value, INTEGER pos{length} -> {kind}",
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
        "A random UUID, or 16 bytes as a UUID.",
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
