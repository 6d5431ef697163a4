"""The headers of requests and responses.

The header version follows from the API version (see `Api`): from the first flexible version on
(KIP-482) a request has header v2 and a response v1, which end with a section of tagged fields. The
client id keeps its old encoding even there.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.wire.fields import (
    READ_ERRORS,
    Buffer,
    MalformedError,
    Writer,
    read_nullable_string,
    skip_tags,
    write_nullable_string,
)

REQUEST_START: Final = Struct(">hhi")  # api key, version, correlation id: the same in all versions
REQUEST_START_BYTES: Final = REQUEST_START.size
CORRELATION_ID: Final = Struct(">i")


def read_request_start(data: Buffer, position: int) -> tuple[int, int, int]:
    """API key, version and correlation id, which determine the layout of the rest."""
    try:
        api_key, version, correlation_id = REQUEST_START.unpack_from(data, position)
    except READ_ERRORS as error:
        raise MalformedError(f"request header: {error}") from error
    return api_key, version, correlation_id


def read_request_rest(data: Buffer, position: int, header_version: int) -> tuple[str | None, int]:
    """The client id, and the position of the body. `position` is that after the start."""
    try:
        client_id, position = read_nullable_string(data, position)
        if header_version >= 2:
            position = skip_tags(data, position) if data[position] else position + 1
        return client_id, position
    except READ_ERRORS as error:
        raise MalformedError(f"request header: {error}") from error


def write_request_header(
    writer: Writer,
    header_version: int,
    *,
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
) -> None:
    buffer = writer.buffer
    buffer += REQUEST_START.pack(api_key, version, correlation_id)
    write_nullable_string(buffer, client_id)
    if header_version >= 2:
        buffer.append(0)


def read_response_header(data: Buffer, position: int, header_version: int) -> tuple[int, int]:
    """The correlation id, and the position of the body."""
    try:
        (correlation_id,) = CORRELATION_ID.unpack_from(data, position)
        position += 4
        if header_version >= 1:
            position = skip_tags(data, position) if data[position] else position + 1
        return correlation_id, position
    except READ_ERRORS as error:
        raise MalformedError(f"response header: {error}") from error


def write_response_header(writer: Writer, header_version: int, correlation_id: int) -> None:
    buffer = writer.buffer
    buffer += CORRELATION_ID.pack(correlation_id)
    if header_version >= 1:
        buffer.append(0)
