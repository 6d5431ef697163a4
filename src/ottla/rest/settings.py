"""Access to a REST server, by the settings of ksqlDB and Kafka Connect.

    authentication.method              NONE, BASIC (ksqlDB), BEARER (Confluent), or BASIC,BEARER
    authentication.realm, .roles       the realm's name; the roles that have access, `*` for all
    authentication.skip.paths          paths without authentication, such as /healthcheck
    rest.extension.classes             Connect: ...BasicAuthSecurityRestExtension is BASIC
    java.security.auth.login.config    a JAAS file that names the users' file, as with -D...
    ottla.authentication.users.file    the users' file itself
    sasl.oauthbearer.*                 validation of bearer tokens: see bearer.py

Settings that ask for authentication and can't be met are an error at startup, so that no port is
open by mistake.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.client.tls import wrong
from ottla.config import is_loopback
from ottla.rest.bearer import BearerTokens
from ottla.rest.users import UsersFile

METHOD: Final = "authentication.method"
REALM: Final = "authentication.realm"
ROLES: Final = "authentication.roles"
SKIP_PATHS: Final = "authentication.skip.paths"
USERS_FILE: Final = "ottla.authentication.users.file"
JAAS_FILE: Final = "java.security.auth.login.config"
EXTENSIONS: Final = "rest.extension.classes"
BASIC_EXTENSION: Final = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)
CONNECT_MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
JETTY_MODULES: Final = (
    "org.eclipse.jetty.jaas.spi.PropertyFileLoginModule",
    "org.eclipse.jetty.security.jaas.spi.PropertyFileLoginModule",
)
OPTIONS: Final = ("KSQL_OPTS", "KAFKA_OPTS")
CONNECT_REALM: Final = "KafkaConnect"

_JAVA_OPTION: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_MODULE: Final = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*)", re.DOTALL
)
_FILE: Final = re.compile(r'\bfile\s*=\s*"([^"]+)"')

log = logging.getLogger("ottla.rest")


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Without `users` and `tokens`, callers are not authenticated."""

    realm: str
    users: UsersFile | None = None
    skipped_paths: frozenset[str] = frozenset()
    tokens: BearerTokens | None = None

    @property
    def is_open(self) -> bool:
        return self.users is None and self.tokens is None


def access_of(properties: Mapping[str, str], *, realm: str) -> AccessSettings:
    """KafkaError(INVALID_CONFIG) if the settings can't be met."""
    methods = set(_words(properties.get(METHOD, "").upper())) or {"NONE"}
    extensions = _words(properties.get(EXTENSIONS, ""))
    for extension in extensions:
        if extension != BASIC_EXTENSION:
            raise wrong(f"{EXTENSIONS}: {extension} is a Java class; {METHOD}=BASIC is built in")
    if methods != {"NONE"} and not methods <= {"BASIC", "BEARER"}:
        raise wrong(f"{METHOD} is NONE, BASIC or BEARER, not {properties[METHOD]}")
    realm = properties.get(REALM, "").strip() or realm
    if methods == {"NONE"} and not extensions:
        return AccessSettings(realm)
    if re.search(r'["\\\x00-\x1f]', realm):
        raise wrong(f"{REALM} is a plain name")
    skipped = frozenset(_words(properties.get(SKIP_PATHS, "")))
    with_users = "BASIC" in methods or bool(extensions)
    tokens = None
    if "BEARER" in methods:
        if _words(properties.get(ROLES, "")) not in ([], ["*"]):
            raise wrong(f"{ROLES} is for users of a file: bearer tokens have no roles")
        tokens = BearerTokens(properties, realm)
    return AccessSettings(realm, _users(properties, realm) if with_users else None, skipped, tokens)


def warn_if_open(
    what: str, host: str, port: int, access: AccessSettings, *, mutual_tls: bool = False
) -> None:
    """Anybody who reaches a port without authentication may do everything there."""
    if access.is_open and not mutual_tls and not is_loopback(host):
        log.warning(
            "%s LISTENS ON %s:%d WITHOUT AUTHENTICATION: everybody who reaches this port may do"
            " everything. Set %s=BASIC or ssl.client.auth=required, or listen on 127.0.0.1.",
            what,
            host,
            port,
            METHOD,
        )


def _users(properties: Mapping[str, str], realm: str) -> UsersFile:
    roles = frozenset(_words(properties.get(ROLES, ""))) or frozenset({"*"})
    path, with_roles = properties.get(USERS_FILE, "").strip(), True
    if not path:
        path, with_roles = _named_by_jaas(properties, realm)
    try:
        return UsersFile(Path(path), roles=roles, with_roles=with_roles)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise wrong(f"the users of REST can't be read: {path}: {reason}") from None


def _named_by_jaas(properties: Mapping[str, str], realm: str) -> tuple[str, bool]:
    """The users' file of a JAAS section, and whether its users have roles."""
    path = properties.get(JAAS_FILE, "").strip() or _java_option()
    if not path:
        raise wrong(f"{METHOD}=BASIC needs the users: {USERS_FILE}, or {JAAS_FILE}")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise wrong(f"{JAAS_FILE} {path}: {error.strerror}") from None
    sections = dict(re.findall(r"([\w.\-]+)\s*\{(.*?)\}\s*;", text, re.DOTALL))
    found = _MODULE.match(sections.get(realm, ""))
    if found is None:
        raise wrong(f"{path} has no section {realm}, which {REALM} names")
    file = _FILE.search(found[2])
    if found[1] not in (CONNECT_MODULE, *JETTY_MODULES) or file is None:
        raise wrong(f"{path}: {realm} needs a PropertyFileLoginModule with file=, not {found[1]}")
    return file[1], found[1] != CONNECT_MODULE


def _java_option() -> str:
    for name in OPTIONS:
        if found := _JAVA_OPTION.search(os.environ.get(name, "")):
            return found[1]
    return ""


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
