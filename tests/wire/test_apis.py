"""The table of APIs, the headers that follow from it, and the generator behind it."""

from __future__ import annotations

import io
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio_oracle import kio_class

from ottla.wire.apis import APIS, Api, ApiKey
from ottla.wire.fields import MalformedError, Writer
from ottla.wire.headers import (
    read_request_rest,
    read_request_start,
    read_response_header,
    write_request_header,
    write_response_header,
)

ROOT = Path(__file__).parent.parent.parent
EVERY_API = pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)


def test_the_table_has_every_api_of_kio() -> None:
    assert sorted(APIS) == sorted(api_key_map)
    assert [key.value for key in ApiKey] == sorted(APIS)
    assert APIS[ApiKey.PRODUCE].name == "Produce"
    assert (APIS[0].version_min, APIS[0].version_max, APIS[0].flexible_from) == (3, 13, 9)


@EVERY_API
def test_an_api_knows_its_classes(api: Api) -> None:
    assert getattr(api.request, "__name__", "") == f"{api.name}Request"
    assert getattr(api.response, "__name__", "") == f"{api.name}Response"


@EVERY_API
def test_headers_are_those_of_kio(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        module = api_key_map[api.key]
        request: Any = kio_class(module, "request", version)
        response: Any = kio_class(module, "response", version)
        request_header = request.__header_schema__.__version__
        assert api.request_header_version(version) == request_header
        assert api.response_header_version(version) == response.__header_schema__.__version__


@pytest.mark.parametrize("client_id", [None, "", "rdkafka"])
@pytest.mark.parametrize("header_version", [1, 2])
def test_request_headers_against_kio(header_version: int, client_id: str | None) -> None:
    module = import_module(f"kio.schema.request_header.v{header_version}.header")
    expected = module.RequestHeader(
        request_api_key=3, request_api_version=9, correlation_id=77, client_id=client_id
    )
    writer = Writer()
    write_request_header(
        writer, header_version, api_key=3, version=9, correlation_id=77, client_id=client_id
    )
    data = bytes(writer.buffer)
    assert data == kio_bytes(expected)
    assert read_request_start(data, 0) == (3, 9, 77)
    assert read_request_rest(data, 8, header_version) == (client_id, len(data))
    for length in range(8, len(data)):
        with pytest.raises(MalformedError):
            read_request_rest(data[:length], 8, header_version)
    with pytest.raises(MalformedError):
        read_request_start(data[:7], 0)


@pytest.mark.parametrize("header_version", [0, 1])
def test_response_headers_against_kio(header_version: int) -> None:
    module = import_module(f"kio.schema.response_header.v{header_version}.header")
    writer = Writer()
    write_response_header(writer, header_version, 77)
    data = bytes(writer.buffer)
    assert entity_reader(module.ResponseHeader)(data, 0)[0].correlation_id == 77
    assert read_response_header(data, 0, header_version) == (77, len(data))
    with pytest.raises(MalformedError):
        read_response_header(data[:-1], 0, header_version)


def test_the_table_is_imported_without_the_messages() -> None:
    code = "import sys, ottla.wire.connection; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("ottla.wire.messages.")}
    assert loaded == {"ottla.wire.messages.table"}


def test_the_messages_are_what_the_generator_writes() -> None:
    generator = ROOT / "tools" / "generate_messages.py"
    done = subprocess.run([sys.executable, str(generator), "--check"], capture_output=True)
    assert done.returncode == 0, "run python tools/generate_messages.py"


def kio_bytes(entity: object) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()
