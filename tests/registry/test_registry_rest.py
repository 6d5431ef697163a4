"""The registry over HTTP, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from registry_records import INT, INT_AND_DEFAULT, INT_AND_MORE

from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.server import RegistryServer
from ottla.testing import LocalCluster


class RestClient:
    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = HTTPConnection(self._address, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read().decode()
        self.headers = dict(answer.getheaders())
        connection.close()
        return answer.status, json.loads(text) if text else None

    def register(self, subject: str, text: str, **fields: object) -> tuple[int, Any]:
        return self.call("POST", f"/subjects/{subject}/versions", {"schema": text, **fields})


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture
def rest(cluster: LocalCluster) -> RestClient:
    return RestClient(cluster.registry_url)


def test_a_schema_is_registered_found_and_deleted(rest: RestClient) -> None:
    status, made = rest.register("orders-value", INT)
    assert (status, made["version"]) == (200, 1)
    assert rest.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    found = rest.call("POST", "/subjects/orders-value", {"schema": INT})[1]
    assert (found["subject"], found["version"], found["id"]) == ("orders-value", 1, made["id"])
    by_id = rest.call("GET", f"/schemas/ids/{made['id']}")[1]
    assert by_id["schema"] == INT
    assert rest.call("GET", f"/schemas/guids/{made['guid']}")[1]["schema"] == INT
    assert rest.call("GET", f"/schemas/ids/{made['id']}/schema")[1] == json.loads(INT)
    assert rest.call("DELETE", "/subjects/orders-value?permanent=true")[1]["error_code"] == 40405
    assert rest.call("DELETE", "/subjects/orders-value") == (200, [1])
    assert rest.call("GET", "/subjects/orders-value/versions")[1]["error_code"] == 40401
    assert rest.call("GET", f"/schemas/ids/{made['id']}/versions") == (200, [])
    assert rest.call("GET", "/subjects/orders-value/versions?deleted=true") == (200, [1])
    assert rest.call("DELETE", "/subjects/orders-value")[1]["error_code"] == 40404
    assert rest.call("DELETE", "/subjects/orders-value?permanent=true") == (200, [1])


def test_errors_have_confluents_codes(rest: RestClient) -> None:
    rest.register("codes", INT)
    for method, path, body, code in (
        ("GET", "/subjects/nobody/versions", None, 40401),
        ("GET", "/subjects/codes/versions/9", None, 40402),
        ("GET", "/subjects/codes/versions/0", None, 42202),
        ("GET", "/subjects/codes/versions/one", None, 42202),
        ("GET", "/schemas/ids/99999", None, 40403),
        ("GET", "/config/codes", None, 40408),
        ("GET", "/mode/codes", None, 40409),
        ("PUT", "/config/codes", {"compatibility": "SOMETIMES"}, 42203),
        ("PUT", "/mode/codes", {"mode": "SOMEHOW"}, 42204),
        ("POST", "/subjects/codes", {"schema": INT_AND_DEFAULT}, 40403),
        ("POST", "/subjects/codes/versions", {"schema": "no schema"}, 42201),
        ("POST", "/subjects/codes/versions", {"schema": INT_AND_MORE}, 409),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": INT}, 42208),
        ("DELETE", "/subjects/codes/versions/7", None, 40402),
        ("GET", "/nothing/here", None, 404),
        ("PATCH", "/subjects", None, 405),
    ):
        status, answer = rest.call(method, path, body)
        assert (path, answer["error_code"]) == (path, code)
        assert status == (code if code < 1000 else code // 100)


def test_compatibility_is_checked_without_registering(rest: RestClient) -> None:
    rest.register("check", INT)
    path = "/compatibility/subjects/check/versions"
    assert rest.call("POST", f"{path}/latest", {"schema": INT_AND_DEFAULT})[1] == {
        "is_compatible": True
    }
    found = rest.call("POST", f"{path}?verbose=true", {"schema": INT_AND_MORE})[1]
    assert found["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0]
    assert any("oldSchemaVersion: 1" in entry for entry in found["messages"])
    assert rest.call("POST", "/compatibility/subjects/new/versions/latest", {"schema": INT})[1] == {
        "is_compatible": True
    }
    assert rest.call("POST", f"{path}/9", {"schema": INT})[1]["error_code"] == 40402
    assert rest.call("GET", "/subjects/check/versions") == (200, [1])


def test_a_context_has_its_own_subjects_and_settings(rest: RestClient) -> None:
    assert rest.call("POST", "/contexts/.sales/subjects/a/versions", {"schema": INT})[1]["id"] == 1
    assert rest.call("GET", "/contexts/sales/subjects")[1] == [":.sales:a"]
    assert ".sales" in rest.call("GET", "/contexts")[1]
    assert ":.sales:a" in rest.call("GET", "/subjects")[1]
    assert ":.sales:a" not in rest.call("GET", "/subjects?subjectPrefix=")[1]
    rest.call("PUT", "/contexts/.sales/config", {"compatibility": "NONE"})
    assert rest.call("GET", "/config/:.sales:a?defaultToGlobal=true")[1] == {
        "compatibilityLevel": "NONE"
    }
    assert rest.call("GET", "/config")[1] == {"compatibilityLevel": "BACKWARD"}
    assert rest.call("DELETE", "/contexts/.sales")[1]["error_code"] == 42211


def test_a_subject_may_hold_a_slash(rest: RestClient) -> None:
    rest.register("a%2Fb", INT)
    assert rest.call("GET", "/subjects/a%2Fb/versions/latest")[1]["subject"] == "a/b"


def test_instances_know_at_once_what_another_one_wrote(
    cluster: LocalCluster, rest: RestClient
) -> None:
    registry = KafkaSchemaRegistry(cluster.bootstrap_servers)
    with RegistryServer(registry, port=0) as second:
        other = RestClient(second.url)
        for number in range(5):
            writer, reader = (rest, other) if number % 2 else (other, rest)
            assert writer.register(f"both-{number}", INT)[0] == 200
            assert reader.call("GET", f"/subjects/both-{number}/versions") == (200, [1])


def test_a_restarted_registry_keeps_everything(cluster: LocalCluster, rest: RestClient) -> None:
    rest.register("kept", INT)
    rest.call("PUT", "/config/kept", {"compatibility": "FULL"})
    before = rest.call("GET", "/subjects/kept/versions/latest")[1]
    with RegistryServer(KafkaSchemaRegistry(cluster.bootstrap_servers), port=0) as again:
        client = RestClient(again.url)
        assert client.call("GET", "/subjects/kept/versions/latest")[1] == before
        assert client.call("GET", "/config/kept")[1] == {"compatibilityLevel": "FULL"}
        assert client.call("GET", "/schemas?subjectPrefix=kept")[1] == [before]


def test_the_fixture_serves(registry: RegistryServer) -> None:
    assert RestClient(registry.url).call("GET", "/subjects") == (200, [])


def test_a_subject_without_a_context_is_found_in_the_one_that_has_it(rest: RestClient) -> None:
    made = rest.register(":.sales:tickets", INT)[1]
    assert ":.sales:tickets" in rest.call("GET", "/subjects")[1]
    assert rest.call("GET", "/subjects?subjectPrefix=:*:tick")[1] == [":.sales:tickets"]
    assert rest.call("GET", "/subjects?subjectPrefix=tick")[1] == []
    assert rest.call("GET", "/subjects/tickets/versions/1")[1]["subject"] == ":.sales:tickets"
    found = rest.call("POST", "/subjects/tickets", {"schema": INT})[1]
    assert found["subject"] == ":.sales:tickets"
    by_id = rest.call("GET", f"/schemas/ids/{made['id']}?subject=tickets")[1]
    assert by_id["subject"] == ":.sales:tickets"
    assert rest.register(":.__GLOBAL:tickets", INT)[1]["error_code"] == 42208
    assert rest.call("PUT", "/config/:.__GLOBAL:", {"compatibility": "FULL"})[0] == 200
    assert rest.call("DELETE", "/config/:.__GLOBAL:")[0] == 200


def test_references_are_shown_with_their_context_where_asked_for(rest: RestClient) -> None:
    rest.register(":.refs:part", '{"type":"record","name":"P","fields":[]}')
    whole = '{"type":"record","name":"W","fields":[{"name":"p","type":"P"}]}'
    reference = {"name": "P", "subject": "part", "version": 1}
    made = rest.register(":.refs:whole", whole, references=[reference])[1]
    for path in ("/subjects/:.refs:whole/versions/1", f"/contexts/.refs/schemas/ids/{made['id']}"):
        for query, subject in (("", "part"), ("?referenceFormat=qualified", ":.refs:part")):
            shown = rest.call("GET", path + query)[1]
            assert shown["references"] == [{**reference, "subject": subject}]
