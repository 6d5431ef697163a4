"""The settings of the HTTP sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.errors import ConfigException
from ottla.connect.validators import (
    at_least,
    between,
    non_empty_string,
    one_of,
    one_of_any_case,
)

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
CODES: Final = re.compile(r"(\d{3})(?:(-)(\d{3})?)?")


def _request(config: ConfigDef) -> ConfigDef:
    group = "Connection"
    return (
        config.define(
            *("http.api.url", ConfigType.STRING), importance=HIGH, group=group,
            doc="Where to send to; ${topic}, ${key} and ${field} stand for a record's own.",
            validator=_url,
        )
        .define(
            *("request.method", ConfigType.STRING, "POST", HIGH),
            "POST, PUT or PATCH.", group=group, validator=one_of_any_case("POST", "PUT", "PATCH"),
        )
        .define(
            *("headers", ConfigType.STRING, "", HIGH),
            "Headers of a request, name:value, separated by header.separator.", group=group,
        )
        .define("header.separator", ConfigType.STRING, "|", HIGH, "Between headers.", group=group)
        .define(
            *("http.connect.timeout.ms", ConfigType.INT, 30000, MEDIUM),
            "Time to connect.", group=group, validator=at_least(1),
        )
        .define(
            *("http.request.timeout.ms", ConfigType.INT, 30000, MEDIUM),
            "Time for an answer.", group=group, validator=at_least(1),
        )
        .define(
            *("auth.type", ConfigType.STRING, "NONE", HIGH),
            "NONE, BASIC or OAUTH2.", group=group,
            validator=one_of_any_case("NONE", "BASIC", "OAUTH2"),
        )
        .define("connection.user", ConfigType.STRING, "", MEDIUM, "Of BASIC.", group=group)
        .define("connection.password", ConfigType.PASSWORD, "", MEDIUM, "Of BASIC.", group=group)
        .define("oauth2.token.url", ConfigType.STRING, "", MEDIUM, "Of OAUTH2.", group=group)
        .define("oauth2.client.id", ConfigType.STRING, "", MEDIUM, "Of OAUTH2.", group=group)
        .define("oauth2.client.secret", ConfigType.PASSWORD, "", MEDIUM, "Secret.", group=group)
        .define("oauth2.client.scope", ConfigType.STRING, "", LOW, "Of OAUTH2.", group=group)
        .define(
            *("oauth2.token.property", ConfigType.STRING, "access_token", LOW),
            "The property of the answer that is the token.", group=group,
        )
        .define(
            *("https.ssl.verify", ConfigType.BOOLEAN, True, MEDIUM),
            "Whether certificates are checked.", group=group,
        )
        .define(
            *("https.ssl.truststore.location", ConfigType.STRING, "", MEDIUM),
            "A PEM file of certificates to trust, besides the system's.", group=group,
        )
    )  # fmt: skip


def _body(config: ConfigDef) -> ConfigDef:
    group = "Batching"
    return (
        config.define(
            *("request.body.format", ConfigType.STRING, "string", MEDIUM),
            "string: a value's text; json: structs and maps as JSON.", group=group,
            validator=one_of("string", "json"),
        )
        .define(
            *("batch.max.size", ConfigType.INT, 1, HIGH),
            "Records of one request.", group=group, validator=at_least(1),
        )
        .define("batch.prefix", ConfigType.STRING, "", HIGH, "Before them.", group=group)
        .define("batch.suffix", ConfigType.STRING, "", HIGH, "Behind them.", group=group)
        .define("batch.separator", ConfigType.STRING, ",", HIGH, "Between them.", group=group)
        .define(
            *("batch.json.as.array", ConfigType.BOOLEAN, False, HIGH),
            "With json: always an array.", group=group,
        )
        .define("regex.patterns", ConfigType.STRING, "", MEDIUM, "In bodies.", group=group)
        .define("regex.replacements", ConfigType.STRING, "", MEDIUM, "By what.", group=group)
        .define("regex.separator", ConfigType.STRING, "~", MEDIUM, "Between them.", group=group)
    )  # fmt: skip


def _trouble(config: ConfigDef) -> ConfigDef:
    group = "Retries"
    return (
        config.define(
            *("max.retries", ConfigType.INT, 10, MEDIUM),
            "How often a request is sent again.", group=group, validator=at_least(0),
        )
        .define(
            *("retry.backoff.ms", ConfigType.INT, 3000, MEDIUM),
            "Time before the first; it doubles, up to a minute, with jitter.", group=group,
            validator=between(0, 86_400_000),
        )
        .define(
            *("retry.on.status.codes", ConfigType.STRING, "400-", MEDIUM),
            "Which answers are tried again: 500-, 429, 502-504.", group=group, validator=_codes,
        )
        .define(
            *("behavior.on.null.values", ConfigType.STRING, "ignore", LOW),
            "Tombstones: ignore, log, fail, delete (sends DELETE).", group=group,
            validator=one_of("ignore", "log", "fail", "delete"),
        )
        .define(
            *("behavior.on.error", ConfigType.STRING, "fail", LOW),
            "What to do when a request is given up: fail, log, ignore.", group=group,
            validator=one_of("fail", "log", "ignore"),
        )
    )  # fmt: skip


def _url(name: str, value: Any) -> None:
    non_empty_string(name, value)
    parts = urlsplit(value or "")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigException.of(name, value, "an address is http://host or https://host")


def _codes(name: str, value: Any) -> None:
    codes_of(value)


def codes_of(text: str) -> list[tuple[int, int]]:
    """400-499,503,599- -> pairs of first and last."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        match = CODES.fullmatch(each)
        if match is None:
            raise ConfigException.of(
                "retry.on.status.codes", text, f"{each} is no status code, and no range of them"
            )
        first, dash, last = match.groups()
        found.append((int(first), int(last) if last else 599 if dash else int(first)))
    return found


CONFIG: Final = _trouble(_body(_request(ConfigDef())))


def settings_of(props: Mapping[str, str]) -> dict[str, Any]:
    # Separators and ends may be blanks, which a config's text loses.
    values = CONFIG.parse(props)
    for name in ("batch.prefix", "batch.suffix", "batch.separator"):
        if name in props:
            values[name] = props[name].replace("\\n", "\n").replace("\\t", "\t")
    for name, text in problems(values):
        raise ConfigException(f"{name}: {text}")
    return values


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong between settings that are right one by one: name and message."""
    found = []
    auth = str(values.get("auth.type") or "").upper()
    if auth == "BASIC" and not values.get("connection.user"):
        found.append(("connection.user", "auth.type=BASIC needs connection.user"))
    if auth == "OAUTH2" and not values.get("oauth2.token.url"):
        found.append(("oauth2.token.url", "auth.type=OAUTH2 needs oauth2.token.url"))
    separator = str(values.get("regex.separator") or "~")
    patterns = _parts(values.get("regex.patterns"), separator)
    replacements = _parts(values.get("regex.replacements"), separator)
    if len(patterns) != len(replacements):
        found.append(
            ("regex.patterns", "there must be as many regex.patterns as regex.replacements")
        )
    for each in patterns:
        try:
            re.compile(each)
        except re.error as error:
            found.append(("regex.patterns", f"{each}: {error}"))
    return found


def regexes_of(values: Mapping[str, Any]) -> list[tuple[re.Pattern[str], str]]:
    separator = values["regex.separator"]
    patterns = _parts(values["regex.patterns"], separator)
    replacements = _parts(values["regex.replacements"], separator)
    return [(re.compile(one), two) for one, two in zip(patterns, replacements, strict=True)]


def _parts(text: str | None, separator: str) -> list[str]:
    return text.split(separator) if text else []
