"""The HTTP sink against a real server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from drives import ErrantRecords, Sink, sink_record

from ottla.connect.connectors.http.settings import codes_of
from ottla.connect.connectors.http.sink import HttpSinkConnector
from ottla.connect.data import INT32_SCHEMA, STRING_SCHEMA, struct_schema
from ottla.connect.errors import ConfigException, ConnectException

ORDER = struct_schema({"id": INT32_SCHEMA, "item": STRING_SCHEMA})


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """A web server that records requests; `answers` are its next status codes, 200 by default."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    @property
    def bodies(self) -> list[str]:
        return [request.body.decode() for request in self.seen]


@pytest.fixture
def web() -> Iterator[Web]:
    found = Web()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.connections.add(self.client_address)
            found.seen.append(Seen(self.command, self.path, dict(self.headers), body))
            text = b'{"access_token": "secret"}' if self.path == "/token" else b"said so"
            status = 200 if self.path == "/token" or not found.answers else found.answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def sink(web: Web, path: str = "/in", **config: str) -> Sink:
    named = {name.replace("_", "."): value for name, value in config.items()}
    quick = {"retry.backoff.ms": "1", "max.retries": "3"}
    return Sink(HttpSinkConnector(), {"http.api.url": web.url + path, **quick, **named})


def order(number: int, **more: Any) -> Any:
    return sink_record(ORDER, {"id": number, "item": "ß"}, number, **more)


def test_each_record_is_a_request_over_one_connection(web: Web) -> None:
    with sink(web) as writer:
        writer.put(sink_record(STRING_SCHEMA, "hello"), sink_record(None, b"bytes"))
        writer.put(order(1))
    assert web.bodies == ["hello", "bytes", "Struct{id=1,item=ß}"]
    assert {(request.method, request.path) for request in web.seen} == {("POST", "/in")}
    assert web.seen[0].headers["Content-Type"] == "text/plain"
    assert len(web.connections) == 1


def test_batches_of_text_and_of_json(web: Web) -> None:
    config = {"batch_prefix": "<", "batch_suffix": ">", "batch_separator": "\\n"}
    with sink(web, batch_max_size="2", **config) as writer:
        writer.put(*(sink_record(STRING_SCHEMA, text) for text in "abc"))
    assert web.bodies == ["<a\nb>", "<c>"]
    web.seen.clear()
    config = {"request_body_format": "json", "request_method": "put"}
    with sink(web, batch_max_size="2", **config) as writer:
        writer.put(order(1), order(2), order(3))
    assert [json.loads(body) for body in web.bodies] == [
        [{"id": 1, "item": "ß"}, {"id": 2, "item": "ß"}],
        {"id": 3, "item": "ß"},
    ]
    assert web.seen[0].method == "PUT"
    assert web.seen[0].headers["Content-Type"] == "application/json"
    web.seen.clear()
    with sink(web, batch_json_as_array="true", **config) as writer:
        writer.put(order(1))
    assert json.loads(web.bodies[0]) == [{"id": 1, "item": "ß"}]


def test_addresses_headers_and_replacements(web: Web) -> None:
    config = {
        "headers": "X-One: 1|content-type: text/x:y",
        "regex_patterns": "^Struct~(id)=",
        "regex_replacements": r"Order~\1:",
    }
    with sink(web, "/${topic}/${key}/${item}?n=${id}", batch_max_size="9", **config) as writer:
        writer.put(order(1, key="a b"), order(1, key="a b"), order(2, key="c/d"))
    assert [request.path for request in web.seen] == [
        "/orders/a%20b/%C3%9F?n=1",
        "/orders/c%2Fd/%C3%9F?n=2",
    ]
    assert web.bodies[0] == "Order{id:1,item=ß},Order{id:1,item=ß}"
    assert web.seen[0].headers["X-One"] == "1"
    assert web.seen[0].headers["content-type"] == "text/x:y"


def test_requests_are_sent_again_where_it_may_help(web: Web) -> None:
    web.answers = [503, 429, 200, 404]
    with sink(web, retry_on_status_codes="429,500-") as writer:
        writer.put(sink_record(STRING_SCHEMA, "x"))
        assert web.bodies == ["x", "x", "x"]
        with pytest.raises(ConnectException, match="404 Not Found: said so"):
            writer.put(sink_record(STRING_SCHEMA, "y"))
        web.answers = [500] * 9
        with pytest.raises(ConnectException, match="500"):
            writer.put(sink_record(STRING_SCHEMA, "z"))
        assert web.bodies[4:] == ["z"] * 4, "one attempt and three retries"
        web.answers = [500] * 4
        writer.context.errant_record_reporter = reported = ErrantRecords()
        writer.put(sink_record(STRING_SCHEMA, "q"), sink_record(STRING_SCHEMA, "r", 1))
        assert [record.value for record, _ in reported.records] == ["q"]
        assert web.bodies[-1] == "r"


def test_configured_errors_are_ignored(web: Web) -> None:
    web.answers = [400]
    for what in ("ignore", "log"):
        with sink(web, behavior_on_error=what, retry_on_status_codes="") as writer:
            writer.put(sink_record(STRING_SCHEMA, "x"))
    assert len(web.seen) == 2


def test_tombstones(web: Web) -> None:
    records = [sink_record(STRING_SCHEMA, "x", key="k"), sink_record(None, None, key="k")]
    for what in ("ignore", "log", "delete"):
        with sink(web, "/${key}", behavior_on_null_values=what, batch_max_size="5") as writer:
            writer.put(*records)
    assert [request.method for request in web.seen] == ["POST", "POST", "POST", "DELETE"]
    assert (web.seen[-1].path, web.seen[-1].body) == ("/k", b"")
    with (
        sink(web, behavior_on_null_values="fail") as writer,
        pytest.raises(ConnectException, match="no value"),
    ):
        writer.put(*records)


def test_basic_and_oauth2_logins_are_sent(web: Web) -> None:
    config = {"connection_user": "me", "connection_password": "p:w"}
    with sink(web, auth_type="basic", **config) as writer:
        writer.put(sink_record(STRING_SCHEMA, "x"))
    word = base64.b64encode(b"me:p:w").decode()
    assert web.seen[0].headers["Authorization"] == f"Basic {word}"
    web.seen.clear()
    web.answers = [200, 401]
    config = {"oauth2_client_id": "me", "oauth2_client_secret": "pw", "oauth2_client_scope": "all"}
    with sink(web, auth_type="OAUTH2", oauth2_token_url=f"{web.url}/token", **config) as writer:
        writer.put(sink_record(STRING_SCHEMA, "x"), sink_record(STRING_SCHEMA, "y"))
    assert [request.path for request in web.seen] == ["/token", "/in", "/in", "/token", "/in"]
    assert web.bodies[0] == "grant_type=client_credentials&scope=all"
    assert web.seen[1].headers["Authorization"] == "Bearer secret"


def test_an_absent_service_is_reported() -> None:
    config = {"http.api.url": "http://127.0.0.1:1/", "max.retries": "1", "retry.backoff.ms": "1"}
    with (
        Sink(HttpSinkConnector(), config) as writer,
        pytest.raises(ConnectException, match="refused"),
    ):
        writer.put(sink_record(STRING_SCHEMA, "x"))


def test_status_codes() -> None:
    assert codes_of("400-, 200,500-503") == [(400, 599), (200, 200), (500, 503)]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"http.api.url": "ftp://x"}, "http://host"),
        ({"retry.on.status.codes": "often"}, "neither a status code"),
        ({"auth.type": "BASIC"}, "connection.user"),
        ({"auth.type": "OAUTH2"}, "oauth2.token.url"),
        ({"regex.patterns": "a"}, "same number of entries"),
        ({"regex.patterns": "(", "regex.replacements": "x"}, "unterminated"),
        ({"request.method": "GET"}, "request.method"),
    ],
)
def test_http_configs_that_can_not_work_are_refused(config: dict[str, str], text: str) -> None:
    props = {"http.api.url": "http://x", **config}
    assert sum(len(value.errors) for value in HttpSinkConnector().validate(props)) == 1
    with pytest.raises(ConfigException, match=text):
        HttpSinkConnector().start(props)
