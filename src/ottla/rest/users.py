"""Users of a REST server: a properties file with salted hashes, or ksqlDB's or Connect's file.

    alice=scrypt$16384$<salt>$<hash>,admin      written by `ottla rest-users add`
    bob: letmein,read-only                      ksqlDB's form (Jetty), in plain text
    carol=secret                                Kafka Connect's form: a password, no roles

The file is read again when it changes. Unknown users take as long as wrong passwords.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.config import parse_properties

SCRYPT: Final = "scrypt"
NO_SALT: Final = bytes(16)  # for hashes that only spend time
COST: Final = 1 << 14  # 16 MiB and some 50 ms for each guess
COST_MAX: Final = 1 << 17
BLOCK: Final = 8
SALT_BYTES: Final = 16
PASSWORD_BYTES_MAX: Final = 1024
REMEMBERED_MAX: Final = 256
ADMIN: Final = "admin"
READ_ONLY: Final = "read-only"

log = logging.getLogger("ottla.rest")


@dataclass(frozen=True, slots=True)
class RestUser:
    name: str
    secret: str = field(repr=False)
    roles: frozenset[str] = frozenset()

    @property
    def is_read_only(self) -> bool:
        """As in ksqlDB: users without a role may read; every role but `read-only` may write."""
        return not self.roles - {READ_ONLY}


class UsersFile:
    """The users of one file. `roles`: those that have access; `with_roles`: False for Connect's own
    format, in which a comma belongs to the password and every user may do everything."""

    def __init__(self, path: Path, *, roles: frozenset[str], with_roles: bool = True) -> None:
        self._path = path
        self._roles = roles
        self._with_roles = with_roles
        self._stamp: tuple[int, int] = (0, 0)
        self._users: Mapping[str, RestUser] = {}
        self._remembered: OrderedDict[bytes, RestUser] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._cost = COST  # of the most expensive password in the file
        self._lock = threading.Lock()
        self._read()

    def check(self, name: str, password: str) -> RestUser | None:
        """The user, if the password is right. Slow on purpose: never call this on an event loop."""
        if len(password.encode()) > PASSWORD_BYTES_MAX:
            return None
        self._read()
        seen = hmac.digest(self._key, f"{len(name)}:{name}:{password}".encode(), "sha256")
        with self._lock:
            if (user := self._remembered.get(seen)) is not None:
                return user
            known = self._users.get(name)
            cost = self._cost
        matches = known is not None and secret_matches(known.secret, password)
        # Spend the same time for unknown users and for cheaper hashes, so that the time of a
        # response does not reveal who exists.
        spend(password, cost_of(known.secret) if known else 1, cost)
        if known is None or not matches or not self._may_enter(known):
            return None
        with self._lock:
            if self._users.get(name) is known:  # the file may have changed meanwhile
                self._remembered[seen] = known
                while len(self._remembered) > REMEMBERED_MAX:
                    self._remembered.popitem(last=False)
        return known

    def _may_enter(self, user: RestUser) -> bool:
        return "*" in self._roles or bool(user.roles & self._roles)

    def _read(self) -> None:
        """An unreadable file denies access to everyone."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return
            users = self._parsed(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if self._stamp == (0, 0):
                raise
            log.error("REST users file %s can't be read, access is denied: %s", self._path, error)
            stamp, users = (-1, -1), {}
        with self._lock:
            self._stamp, self._users = stamp, users
            self._cost = max([COST, *(cost_of(user.secret) for user in users.values())])
            self._remembered.clear()

    def _parsed(self, text: str) -> dict[str, RestUser]:
        users = {}
        plain = 0
        for name, value in parse_properties(text).items():
            secret, *roles = value.split(",") if self._with_roles else (value, ADMIN)
            secret = secret.strip() if self._with_roles else secret
            if secret.startswith(("OBF:", "MD5:", "CRYPT:")):
                raise ValueError(
                    f"the password of {name} is in a format of Jetty's that is not secret:"
                    " `ottla rest-users add` writes a salted hash"
                )
            if not secret:
                raise ValueError(f"the user {name} has no password")
            plain += not secret.startswith(f"{SCRYPT}$")
            words = frozenset(role.strip() for role in roles) - {""}
            users[name] = RestUser(name, secret, words)
        if plain:
            log.warning(
                "%s holds %d passwords in plain text: `ottla rest-users add` writes salted hashes",
                self._path,
                plain,
            )
        return users


def hash_password(password: str) -> str:
    salt = secrets.token_bytes(SALT_BYTES)
    return f"{SCRYPT}${COST}${_text(salt)}${_text(_hashed(password, salt, COST))}"


def secret_matches(secret: str, password: str) -> bool:
    """In constant time."""
    if not secret.startswith(f"{SCRYPT}$"):
        return hmac.compare_digest(_digest(secret), _digest(password))
    try:
        _, cost, salt, wanted = secret.split("$")
        if not 1 < int(cost) <= COST_MAX:
            return False
        found = _hashed(password, base64.b64decode(salt, validate=True), int(cost))
        return hmac.compare_digest(found, base64.b64decode(wanted, validate=True))
    except ValueError:
        return False


def cost_of(secret: str) -> int:
    """The work that `secret_matches` spends on it; 1 for plain text."""
    try:
        kind, cost, _, _ = secret.split("$")
        is_cost = kind == SCRYPT and 1 < int(cost) <= COST_MAX and int(cost).bit_count() == 1
        return int(cost) if is_cost else 1
    except ValueError:
        return 1


def spend(password: str, spent: int, wanted: int) -> None:
    """Hash until `wanted` is spent. Costs are powers of two: each step doubles the spent work."""
    step = max(spent, 2)
    while step < wanted:
        _hashed(password, NO_SALT, step)
        step *= 2


def _hashed(password: str, salt: bytes, cost: int) -> bytes:
    memory = 256 * BLOCK * (cost + 16)  # twice what it needs
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=BLOCK, p=1, maxmem=memory)


def _digest(text: str) -> bytes:
    """Digests of equal length, so that a comparison does not depend on the lengths."""
    return hashlib.sha256(text.encode()).digest()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
