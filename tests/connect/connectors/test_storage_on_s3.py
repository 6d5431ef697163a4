"""The storage sink on an object store: pyarrow's own S3 client, and a server that speaks as much of
S3 as writing takes."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drives import Sink, sink_record

from ottla.connect.connectors.storage.sink import StorageSinkConnector
from ottla.connect.data import INT64_SCHEMA, struct_schema
from ottla.connect.errors import RetriableException

SCHEMA = struct_schema({"id": INT64_SCHEMA})
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class Bucket:
    """The complete objects; parts of others are pending."""

    place: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    refuses: bool = False


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    found = Bucket()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            path, query, body = self._asked()
            found.parts[path][int(query["partNumber"][0])] = body
            self._answer(b"", {"ETag": '"part"'})

        def do_POST(self) -> None:
            path, query, _ = self._asked()
            if found.refuses:
                self._answer(b"<Error><Code>AccessDenied</Code></Error>", {}, 403)
            elif "uploads" in query:
                found.parts[path] = {}
                self._answer(self._xml("InitiateMultipartUpload", "<UploadId>u</UploadId>"), {})
            else:
                parts = found.parts.pop(path)
                found.objects[path] = b"".join(parts[number] for number in sorted(parts))
                self._answer(self._xml("CompleteMultipartUpload", "<ETag>e</ETag>"), {})

        def _asked(self) -> tuple[str, dict[str, list[str]], bytes]:
            parts = urlsplit(self.path)
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = unchunked(self.rfile)
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "chunked" in self.headers.get("Content-Encoding", ""):
                body = unchunked(io.BytesIO(body))
            found.keys.add(self.headers["Authorization"].split("Credential=")[1].split("/")[0])
            return unquote(parts.path), parse_qs(parts.query, keep_blank_values=True), body

        def _xml(self, name: str, inner: str) -> bytes:
            return f"<{name}Result {NAMESPACE}>{inner}</{name}Result>".encode()

        def _answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.place = f"127.0.0.1:{server.server_address[1]}"
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def unchunked(body: io.BufferedIOBase) -> bytes:
    """Each piece follows its size in hexadecimal; trailers, such as checksums, may follow the last.

    HTTP chunks the body, and S3 chunks it once more within.
    """
    found = b""
    while size := int(body.readline().split(b";")[0], 16):
        found += body.read(size)
        body.readline()
    while body.readline().strip():
        continue
    return found


def test_objects_are_written_by_either_kind_of_config(bucket: Bucket) -> None:
    confluent = {
        "s3.bucket.name": "lake",
        "s3.region": "us-east-1",
        "store.url": f"http://{bucket.place}",
        "aws.access.key.id": "me",
        "aws.secret.access.key": "secret",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    }
    place = f"endpoint_override={bucket.place}&scheme=http&region=us-east-1"
    ours = {"store.url": f"s3://you:secret@lake/deep?{place}", "format.class": "parquet"}
    for config in (confluent, ours):
        with Sink(StorageSinkConnector(), {**config, "flush.size": "2"}) as sink:
            sink.put(*(sink_record(SCHEMA, {"id": n}, n) for n in range(3)))
            assert sink.commit() == {("orders", 0): 2}
    name = "topics/orders/partition=0/orders+0+0000000000.snappy.parquet"
    assert sorted(bucket.objects) == [f"/lake/deep/{name}", f"/lake/{name}"]
    for content in bucket.objects.values():
        assert pq.read_table(pa.BufferReader(content)).to_pydict() == {"id": [0, 1]}
    assert bucket.keys == {"me", "you"}


def test_a_refused_request_is_retried(bucket: Bucket) -> None:
    place = f"endpoint_override={bucket.place}&scheme=http&region=us-east-1"
    config = {"store.url": f"s3://me:secret@lake?{place}", "format.class": "json"}
    with Sink(StorageSinkConnector(), {**config, "flush.size": "1"}) as sink:
        bucket.refuses = True
        with pytest.raises(RetriableException, match="Writing"):
            sink.put(sink_record(SCHEMA, {"id": 1}))
        bucket.refuses = False
        sink.put(sink_record(SCHEMA, {"id": 1}))
    assert [*bucket.objects.values()] == [b'{"id":1}\n']
