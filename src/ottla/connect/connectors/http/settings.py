"""The settings of the HTTP sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.errors import ConfigException
from ottla.connect.validators import at_least, between, non_empty_string, one_of, one_of_any_case

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
CODES: Final = re.compile(r"(\d{3})(?:(-)(\d{3})?)?")


def _request(config: ConfigDef) -> ConfigDef:
    group = "Connection"
    return (
        config.define(
            *("http.api.url", ConfigType.STRING), importance=HIGH, group=group,
            doc="The URL; may contain ${topic}, ${key} and ${field} of the record.",
            validator=_url,
        )
        .define(
            *("request.method", ConfigType.STRING, "POST", HIGH),
            "POST, PUT or PATCH.", group=group, validator=one_of_any_case("POST", "PUT", "PATCH"),
        )
        .define(
            *("headers", ConfigType.STRING, "", HIGH),
            "Request headers, name:value, separated by header.separator.", group=group,
        )
        .define("header.separator", ConfigType.STRING, "|", HIGH, "Separates headers.", group=group)
        .define(
            *("http.connect.timeout.ms", ConfigType.INT, 30000, MEDIUM),
            "The timeout for connecting.", group=group, validator=at_least(1),
        )
        .define(
            *("http.request.timeout.ms", ConfigType.INT, 30000, MEDIUM),
            "The timeout for the response.", group=group, validator=at_least(1),
        )
        .define(
            *("auth.type", ConfigType.STRING, "NONE", HIGH),
            "NONE, BASIC or OAUTH2.", group=group,
            validator=one_of_any_case("NONE", "BASIC", "OAUTH2"),
        )
        .define("connection.user", ConfigType.STRING, "", MEDIUM, "For BASIC.", group=group)
        .define("connection.password", ConfigType.PASSWORD, "", MEDIUM, "For BASIC.", group=group)
        .define("oauth2.token.url", ConfigType.STRING, "", MEDIUM, "For OAUTH2.", group=group)
        .define("oauth2.client.id", ConfigType.STRING, "", MEDIUM, "For OAUTH2.", group=group)
        .define("oauth2.client.secret", ConfigType.PASSWORD, "", MEDIUM, "Its secret.", group=group)
        .define("oauth2.client.scope", ConfigType.STRING, "", LOW, "For OAUTH2.", group=group)
        .define(
            *("oauth2.token.property", ConfigType.STRING, "access_token", LOW),
            "The property of the response that holds the token.", group=group,
        )
        .define(
            *("https.ssl.verify", ConfigType.BOOLEAN, True, MEDIUM),
            "Whether to verify certificates.", group=group,
        )
        .define(
            *("https.ssl.truststore.location", ConfigType.STRING, "", MEDIUM),
            "A PEM file of trusted certificates, in addition to the system's.", group=group,
        )
    )  # fmt: skip


def _body(config: ConfigDef) -> ConfigDef:
    group = "Batching"
    return (
        config.define(
            *("request.body.format", ConfigType.STRING, "string", MEDIUM),
            "string: the value's text; json: structs and maps as JSON.", group=group,
            validator=one_of("string", "json"),
        )
        .define(
            *("batch.max.size", ConfigType.INT, 1, HIGH),
            "The maximum number of records in one request.", group=group, validator=at_least(1),
        )
        .define("batch.prefix", ConfigType.STRING, "", HIGH, "Before the records.", group=group)
        .define("batch.suffix", ConfigType.STRING, "", HIGH, "After the records.", group=group)
        .define("batch.separator", ConfigType.STRING, ",", HIGH, "Between records.", group=group)
        .define(
            *("batch.json.as.array", ConfigType.BOOLEAN, False, HIGH),
            "Whether json always sends an array.", group=group,
        )
        .define("regex.patterns", ConfigType.STRING, "", MEDIUM, "Replaced in bodies.", group=group)
        .define("regex.replacements", ConfigType.STRING, "", MEDIUM, "For them.", group=group)
        .define("regex.separator", ConfigType.STRING, "~", MEDIUM, "Between both.", group=group)
    )  # fmt: skip


def _retries(config: ConfigDef) -> ConfigDef:
    group = "Retries"
    return (
        config.define(
            *("max.retries", ConfigType.INT, 10, MEDIUM),
            "The maximum number of retries of a request.", group=group, validator=at_least(0),
        )
        .define(
            *("retry.backoff.ms", ConfigType.INT, 3000, MEDIUM),
            "The delay before the first retry; it doubles, up to a minute, with jitter.",
            group=group, validator=between(0, 86_400_000),
        )
        .define(
            *("retry.on.status.codes", ConfigType.STRING, "400-", MEDIUM),
            "The status codes to retry, as in 500-, 429 or 502-504.", group=group, validator=_codes,
        )
        .define(
            *("behavior.on.null.values", ConfigType.STRING, "ignore", LOW),
            "Tombstones: ignore, log, fail, delete (sends DELETE).", group=group,
            validator=one_of("ignore", "log", "fail", "delete"),
        )
        .define(
            *("behavior.on.error", ConfigType.STRING, "fail", LOW),
            "What to do when retries are used up: fail, log, ignore.", group=group,
            validator=one_of("fail", "log", "ignore"),
        )
    )  # fmt: skip


def _url(name: str, value: Any) -> None:
    non_empty_string(name, value)
    parts = urlsplit(value or "")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigException.of(name, value, "must be http://host or https://host")


def _codes(name: str, value: Any) -> None:
    codes_of(value)


def codes_of(text: str) -> list[tuple[int, int]]:
    """400-499,503,599- -> pairs of first and last."""
    found = []
    for code in filter(None, (part.strip() for part in text.split(","))):
        match = CODES.fullmatch(code)
        if match is None:
            raise ConfigException.of(
                "retry.on.status.codes", text, f"{code} is neither a status code nor a range"
            )
        first, dash, last = match.groups()
        found.append((int(first), int(last) if last else 599 if dash else int(first)))
    return found


def settings_of(props: Mapping[str, str]) -> dict[str, Any]:
    # Taken from the raw config, because parsing strips blanks.
    values = CONFIG.parse(props)
    for name in ("batch.prefix", "batch.suffix", "batch.separator"):
        if name in props:
            values[name] = props[name].replace("\\n", "\n").replace("\\t", "\t")
    return values


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Errors between settings that are valid by themselves: name and message."""
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
            (
                "regex.patterns",
                "regex.patterns and regex.replacements must have the same number of entries",
            )
        )
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(("regex.patterns", f"{pattern}: {error}"))
    return found


CONFIG: Final = _retries(_body(_request(ConfigDef()))).check(problems)


def regexes_of(values: Mapping[str, Any]) -> list[tuple[re.Pattern[str], str]]:
    separator = values["regex.separator"]
    patterns = _parts(values["regex.patterns"], separator)
    replacements = _parts(values["regex.replacements"], separator)
    return [
        (re.compile(pattern), replacement)
        for pattern, replacement in zip(patterns, replacements, strict=True)
    ]


def _parts(text: str | None, separator: str) -> list[str]:
    return text.split(separator) if text else []
