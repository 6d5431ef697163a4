"""`ssl.principal.mapping.rules`: from a certificate's subject to a user name.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name decides; DEFAULT takes the name as it is. A
client whose name no rule matches is refused.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.auth.distinguished_name import distinguished_name
from ottla.auth.principal import ANONYMOUS, Principal, user
from ottla.auth.sasl import refused

DEFAULT: Final = "DEFAULT"

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,\s*|\Z)"
)
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9])")


class MappingRule:
    """One rule; a pattern of None is DEFAULT."""

    def __init__(self, pattern: str | None, replacement: str = "", case: str = "") -> None:
        self._pattern = None if pattern is None else java_pattern(pattern)
        self._replacement = replacement
        self._case = case

    def apply(self, name: str) -> str | None:
        if self._pattern is None:
            return name
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        mapped = with_groups(self._replacement, match)
        if self._case:
            mapped = mapped.lower() if self._case == "L" else mapped.upper()
        return mapped


class SslPrincipalMapper:
    """A listener's rules, from `ssl.principal.mapping.rules`."""

    def __init__(self, text: str = DEFAULT) -> None:
        """ValueError says which rule can't be read."""
        self._rules = _parsed(text)

    def principal(self, certificate: bytes | None) -> Principal:
        """The principal of a client certificate (DER); ANONYMOUS without one.

        KafkaError if no rule applies to the name: the connection is refused.
        """
        if certificate is None:
            return ANONYMOUS
        try:
            subject = distinguished_name(certificate)
        except (ValueError, IndexError):  # OpenSSL accepts names with a broken encoding
            raise refused("The subject of the client's certificate can't be read") from None
        return user(self.name(subject))

    def name(self, subject: str) -> str:
        for rule in self._rules:
            if (mapped := rule.apply(subject)) is not None:
                return mapped
        raise refused(f"No rules apply to {subject}")


def _parsed(text: str) -> list[MappingRule]:
    rules: list[MappingRule] = []
    position = 0
    text = text.strip() or DEFAULT
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ValueError(f"Invalid rule: {text[position:]}")
        try:
            rules.append(MappingRule(match["pattern"], match["replacement"] or "", match["case"]))
        except re.error as error:
            raise ValueError(f"Invalid rule: {match[0]}: {error}") from error
        position = match.end()
    return rules


def java_pattern(text: str) -> re.Pattern[str]:
    """Java writes named groups without the P."""
    return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", text))


def with_groups(replacement: str, match: re.Match[str]) -> str:
    """Fill in a replacement by Java's rules: `$1` is what the first group matched."""
    return _REFERENCE.sub(lambda found: _referred(found, match), replacement)


def _referred(found: re.Match[str], match: re.Match[str]) -> str:
    """What the group matched; a reference to a group that the pattern lacks is plain text."""
    if found["literal"] is not None:
        return found["literal"]
    group = int(found["group"])
    return (match[group] or "") if group <= len(match.groups()) else found[0]
