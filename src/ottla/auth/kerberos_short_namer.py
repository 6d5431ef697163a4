"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to a user name.

    RULE:[1:$1@$0](.*@EXAMPLE.ORG)s/@.*//   alice@EXAMPLE.ORG          alice
    RULE:[2:$1.$2]/L                        Web/HOST7@EXAMPLE.ORG      web.host7
    DEFAULT                                 kafka/host7@OUR.REALM      kafka

[n:format] is for principals with n components; $0 is the realm, $1 the first component. What the
format makes must match the whole expression in parentheses, if there is one; s/from/to/ replaces
the first match in it, with g all; L and U change its case. DEFAULT is the first component of any
principal in the broker's own realm. The first rule that applies decides. A principal is refused if
no rule applies, or if / or @ is left in its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.auth.ssl_principal_mapper import java_pattern, with_groups

DEFAULT: Final = "DEFAULT"
COMPONENTS_MAX: Final = 2

_RULE: Final = re.compile(
    r"RULE:\[(?P<count>[0-9]+):(?P<format>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<found>[^/]*)/(?P<put>[^/]*)/(?P<all>g)?)?"
    r"/?(?P<case>[LU])?"
)
_PLACE: Final = re.compile(r"\$(?P<index>[0-9]*)")
# Backslashes escape / and @ within a component; names with any are refused.
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@\\]+)(?:/(?P<second>[^/@\\]+))?@(?P<realm>[^/@\\]+)")


class KerberosShortNamer:
    """A listener's rules; `realm` is this machine's own."""

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        """ValueError says which rule can't be read."""
        self._rules = [
            None if rule == DEFAULT else LocalNameRule(rule)
            for rule in (text.strip() for text in rules or (DEFAULT,))
        ]
        self._realm = realm

    def short_name(self, principal: str) -> str:
        """ValueError if no rule applies, or the result is not a simple name."""
        parsed = _PRINCIPAL.fullmatch(principal)
        if parsed is None:
            raise ValueError(f"Malformed Kerberos name: {principal!r}")
        parts = [part for part in parsed.group("realm", "first", "second") if part is not None]
        for rule in self._rules:
            name = rule.apply(parts) if rule is not None else self._default(parts)
            if name is not None:
                return _simple(name, principal)
        raise ValueError(f"No rules apply to {principal!r}")

    def _default(self, parts: list[str]) -> str | None:
        return parts[1] if parts[0] == self._realm else None


class LocalNameRule:
    """One RULE."""

    def __init__(self, text: str) -> None:
        rule = _RULE.fullmatch(text)
        if rule is None:
            raise ValueError(f"Invalid rule: {text}")
        self._count = int(rule["count"])
        self._format = rule["format"]
        for place in _PLACE.finditer(self._format):
            if not place["index"] or int(place["index"]) > min(self._count, COMPONENTS_MAX):
                raise ValueError(f"Invalid rule: {text}: {place[0]} is not there")
        try:
            self._match = None if rule["match"] is None else java_pattern(rule["match"])
            self._found = None if rule["found"] is None else java_pattern(rule["found"])
        except re.error as error:
            raise ValueError(f"Invalid rule: {text}: {error}") from error
        self._put = rule["put"] or ""
        self._times = 0 if rule["all"] else 1  # as re.sub counts: 0 is all
        self._case = rule["case"]

    def apply(self, parts: list[str]) -> str | None:
        """`parts` are the realm and the components; None if the rule is for other principals."""
        if len(parts) - 1 != self._count:
            return None
        name = _PLACE.sub(lambda place: parts[int(place["index"])], self._format)
        if self._match is not None and not self._match.fullmatch(name):
            return None
        if self._found is not None:
            name = self._found.sub(lambda found: with_groups(self._put, found), name, self._times)
        if self._case:
            name = name.lower() if self._case == "L" else name.upper()
        return name


def _simple(name: str, principal: str) -> str:
    if not name or "/" in name or "@" in name:
        raise ValueError(f"Non-simple name {name!r} after the rules for {principal!r}")
    return name
