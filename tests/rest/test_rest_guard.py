"""Logins of the REST servers: no request passes without RestGuard."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from ottla.config import is_loopback
from ottla.errors import KafkaError
from ottla.rest.guard import RestGuard, Right, caller_of
from ottla.rest.hypercorn_server import HypercornServer
from ottla.rest.settings import BASIC_EXTENSION, access_of, warn_if_open
from ottla.rest.users import UsersFile, hash_password, secret_matches

USERS = {"ann": "admin", "rob": "read-only", "dev": "developer", "nil": ""}
PASSWORD = "päss:word"


def _file(folder: Path, users: Mapping[str, str] = USERS) -> Path:
    path = folder / "users.properties"
    lines = [f"{name}={hash_password(PASSWORD)},{role}" for name, role in users.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _basic(path: Path, **more: str) -> dict[str, str]:
    given = {"authentication.method": "BASIC", "ottla.authentication.users.file": str(path)}
    return given | {name.replace("_", "."): value for name, value in more.items()}


def _needs(method: str, path: str) -> Right:
    return Right.READ if method == "GET" else Right.CHANGE


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A server that records the users of its routes."""
    through: list[str] = []

    async def anything(request: Request) -> Response:
        user = caller_of(request.scope)
        through.append(user.name if user else "nobody")
        return PlainTextResponse("through")

    async def socket(socket: WebSocket) -> None:
        through.append("socket")
        await socket.close()

    routes = [
        Route("/{path:path}", anything, methods=["GET", "POST", "DELETE"]),
        WebSocketRoute("/ws", socket),
    ]
    given = _basic(_file(tmp_path), authentication_skip_paths="/healthcheck")
    guard = RestGuard(
        Starlette(routes=routes),
        access_of(given, realm="test"),
        needs=_needs,
        refuse=lambda status, message: PlainTextResponse(message, status),
    )
    with HypercornServer(guard) as serving:
        yield serving.url, through


def _header(text: str) -> dict[str, str]:
    return {"Authorization": text}


def _encoded(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        _header(""),
        _header("Basic"),
        _header("Basic !!!"),
        _header(f"Bearer {_encoded('ann', PASSWORD)}"),
        _header(f"Basic {_encoded('ann', 'wrong')}"),
        _header(f"Basic {_encoded('ann', '')}"),
        _header(f"Basic {_encoded('nobody', PASSWORD)}"),
        _header(f"Basic {_encoded('ann', 'x' * 5000)}"),
        _header("Basic " + base64.b64encode(b"ann").decode()),
        {"X-Forwarded-User": "ann"},
    ],
)
def test_cve_2025_61673_no_route_is_reached_without_a_valid_login(
    served: tuple[str, list[str]], headers: dict[str, str]
) -> None:
    """CVE-2025-61673: a missing header skipped the check."""
    url, through = served
    for path in ("/", "/connectors", "/no/such/path", "/healthcheck/../connectors"):
        answer = httpx.get(url + path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Basic realm="test"')
    assert through == []


def test_two_logins_in_one_request_are_refused(served: tuple[str, list[str]]) -> None:
    url, through = served
    value = f"Basic {_encoded('ann', PASSWORD)}"
    answer = httpx.get(url, headers=[("Authorization", value), ("Authorization", value)])
    assert (answer.status_code, through) == (401, [])


def test_roles_decide_what_a_caller_may_do(served: tuple[str, list[str]]) -> None:
    url, through = served
    for user, get, post in (
        ("ann", 200, 200),
        ("dev", 200, 200),
        ("rob", 200, 403),
        ("nil", 200, 403),
    ):
        login = httpx.BasicAuth(user, PASSWORD)
        assert httpx.get(f"{url}/x", auth=login).status_code == get
        assert httpx.post(f"{url}/x", auth=login).status_code == post
    assert through == ["ann", "ann", "dev", "dev", "rob", "nil"]


def test_a_skipped_path_is_exactly_that_path(served: tuple[str, list[str]]) -> None:
    url, _ = served
    assert httpx.get(f"{url}/healthcheck").status_code == 200
    for path in ("/healthcheck/", "/healthcheckx", "/x?/healthcheck"):
        assert httpx.get(url + path).status_code == 401


def test_a_socket_is_refused_before_it_opens(served: tuple[str, list[str]]) -> None:
    url, through = served
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
    }
    assert httpx.get(f"{url}/ws", headers=headers).status_code == 403
    assert through == []


def test_a_changed_user_file_applies_at_once(tmp_path: Path) -> None:
    path = _file(tmp_path)
    users = access_of(_basic(path), realm="test").users
    assert users is not None
    assert users.check("ann", PASSWORD) is not None
    _file(tmp_path, {"zoe": "admin"})
    assert users.check("ann", PASSWORD) is None
    assert users.check("zoe", PASSWORD) is not None
    path.unlink()
    assert users.check("zoe", PASSWORD) is None


def test_only_listed_roles_are_admitted(tmp_path: Path) -> None:
    users = access_of(_basic(_file(tmp_path), authentication_roles="admin"), realm="r").users
    assert users is not None
    assert [name for name in USERS if users.check(name, PASSWORD)] == ["ann"]


def test_user_files_of_kafka_connect_and_ksqldb_are_accepted(tmp_path: Path) -> None:
    connect, jetty, jaas = (tmp_path / name for name in ("connect", "jetty", "jaas.conf"))
    connect.write_text("carl=se,cret\n")
    jetty.write_text("fred: letmein,ksql-user\nrob: letmein,read-only\n")
    package = "org.apache.kafka.connect.rest.basic.auth.extension"
    jaas.write_text(
        f'KafkaConnect {{\n  {package}.PropertyFileLoginModule required\n  file="{connect}";\n}};\n'
        "KsqlServer-Props {\n  org.eclipse.jetty.jaas.spi.PropertyFileLoginModule required\n"
        f'  file="{jetty}"\n  debug="false";\n}};\n'
    )
    given = {"java.security.auth.login.config": str(jaas)}
    users = access_of(given | {"rest.extension.classes": BASIC_EXTENSION}, realm="KafkaConnect")
    assert users.users is not None
    carl = users.users.check("carl", "se,cret")
    assert carl is not None
    assert not carl.is_read_only
    realm = {"authentication.method": "BASIC", "authentication.realm": "KsqlServer-Props"}
    users = access_of(given | realm, realm="other")
    assert users.users is not None
    fred, rob = users.users.check("fred", "letmein"), users.users.check("rob", "letmein")
    assert fred is not None
    assert rob is not None
    assert (fred.is_read_only, rob.is_read_only) == (False, True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"authentication.method": "BASIC"}, "needs the users"),
        ({"authentication.method": "BEARER"}, "needs the keys of a provider"),
        ({"authentication.method": "DIGEST"}, "NONE, BASIC or BEARER"),
        ({"rest.extension.classes": "com.example.MyAuth"}, "Java class"),
        (_basic(Path("/no/such/file")), "No such file"),
    ],
)
def test_impossible_settings_prevent_the_start(given: dict[str, str], why: str) -> None:
    with pytest.raises(KafkaError, match=why):
        access_of(given, realm="test")


def test_a_jetty_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("fred: MD5:0d107d09f5bbe40cade3de5c71e9e9b7,admin\n")
    with pytest.raises(KafkaError, match="ottla rest-users add"):
        access_of(_basic(path), realm="test")


def test_a_hash_is_salted_and_matches_only_its_password() -> None:
    one, other = hash_password("secret"), hash_password("secret")
    assert one != other
    assert "secret" not in one
    assert secret_matches(one, "secret")
    assert not secret_matches(one, "Secret")
    assert not secret_matches("scrypt$99999999999$AAAA$AAAA", "secret")
    assert not secret_matches("scrypt$16384$", "secret")


def test_an_open_port_logs_a_warning(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    nobody = access_of({}, realm="test")
    somebody = access_of(_basic(_file(tmp_path)), realm="test")
    with caplog.at_level(logging.WARNING):
        for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
            assert is_loopback(host)
            warn_if_open("REST", host, 8083, nobody)
        warn_if_open("REST", "0.0.0.0", 8083, somebody)
        warn_if_open("REST", "0.0.0.0", 8083, nobody, mutual_tls=True)
        assert caplog.records == []
        warn_if_open("REST", "0.0.0.0", 8083, nobody)
    assert "WITHOUT AUTHENTICATION" in caplog.text


def test_every_login_takes_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a response does not reveal whether a user exists: the test counts the work."""
    path = tmp_path / "users.properties"
    salt = base64.b64encode(bytes(16)).decode()
    path.write_text(
        f"hashed={hash_password(PASSWORD)},admin\nplain={PASSWORD},admin\n"
        f"dear=scrypt$32768${salt}${salt},admin\ncheap=scrypt$1024${salt}${salt},admin\n"
        f"broken=scrypt$999${salt}${salt},admin\n",
        encoding="utf-8",
    )
    users = UsersFile(path, roles=frozenset({"admin"}))
    work: list[int] = []
    scrypt = hashlib.scrypt

    def counted(password: bytes, *, n: int, **more: Any) -> bytes:
        found = scrypt(password, n=n, **more)
        work.append(n)
        return found

    monkeypatch.setattr(hashlib, "scrypt", counted)
    spent = {}
    for name in ("hashed", "plain", "dear", "cheap", "broken", "nobody"):
        work.clear()
        assert users.check(name, "wrong") is None
        spent[name] = sum(work)
    assert max(spent.values()) == 32768
    assert min(spent.values()) >= 32766, spent
    work.clear()
    assert users.check("plain", PASSWORD) is not None
    assert sum(work) >= 32766
