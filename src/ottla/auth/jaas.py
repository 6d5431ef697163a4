"""`sasl.jaas.config`: one login module with its options, read strictly.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="s";

The text names Java classes, which Kafka loads. Here it can name only the modules below: any other
class is refused and never looked for (CVE-2023-25194).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": "PLAIN",
    "org.apache.kafka.common.security.scram.ScramLoginModule": "SCRAM",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
    "com.sun.security.auth.module.Krb5LoginModule": "GSSAPI",
}
CONTROL_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |"(?P<quoted>(?:[^"\\\n]|\\.)*)"
    |(?P<word>[A-Za-z0-9_.$\-]+)
    |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(slots=True, frozen=True)
class JaasEntry:
    """A login module's short name (PLAIN, SCRAM, OAUTHBEARER, GSSAPI) and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """ValueError says what is wrong without repeating a value, which may be a password."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (True, ";"):
        raise ValueError("JAAS config entry not terminated by semi-colon")
    (_, name), (_, flag), *rest = tokens[:-1]
    if name not in MODULES:
        raise ValueError(f"unknown login module {name}: must be one of {', '.join(MODULES)}")
    if flag.lower() not in CONTROL_FLAGS:
        raise ValueError(
            f"the control flag of {name} must be one of required, requisite, sufficient, optional"
        )
    if (True, ";") in rest:
        raise ValueError("JAAS config property contains more than one login module")
    return JaasEntry(MODULES[name], _options(rest))


def _options(tokens: list[tuple[bool, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    if len(tokens) % 3:
        raise ValueError("options of a login module have the form name=value")
    for index in range(0, len(tokens), 3):
        (key_sign, key), equals, (value_sign, value) = tokens[index : index + 3]
        if key_sign or value_sign or equals != (True, "="):
            raise ValueError("options of a login module have the form name=value")
        if key in options:
            raise ValueError(f"option {key} is set twice")
        options[key] = value
    return options


def _tokens(text: str) -> list[tuple[bool, str]]:
    """(is it a sign, text), without spaces and comments."""
    tokens: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"JAAS config can't be read at character {position}")
        if match["quoted"] is not None:
            tokens.append((False, _ESCAPE.sub(_unescape, match["quoted"])))
        elif match["word"] is not None:
            tokens.append((False, match["word"]))
        elif match["sign"] is not None:
            tokens.append((True, match["sign"]))
        position = match.end()
    return tokens


def _unescape(match: re.Match[str]) -> str:
    what = match[1]
    if what[0] in "01234567":
        return chr(int(what, 8))
    return _ESCAPES.get(what, what)
