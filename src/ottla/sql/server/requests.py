"""Reading requests, with limits, and writing responses; errors have ksqlDB's shape."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ottla.client.permissions import AUTHORIZATION
from ottla.errors import KafkaError
from ottla.rest.request_body import request_body
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.engine.entities import error_entity
from ottla.sql.server.row_json import dumps

JSON: Final = "application/json"
KSQL_JSON: Final = "application/vnd.ksql.v1+json"
PROTOBUF: Final = "application/vnd.ksqlapi.protobuf.v1"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"

log = logging.getLogger("ottla.sql")


async def json_request(request: Request, empty: bytes = b"") -> dict[str, Any]:
    """The body as a JSON object; `empty` stands for an empty one."""
    return json_object(await request_body(request, _too_large) or empty)


def _too_large(message: str) -> SqlError:
    return SqlError(
        message, remedy="Send the statements in several requests.", code=SqlCode.BAD_REQUEST
    )


def json_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; SqlError if it is something else."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _malformed(f"Malformed JSON: {error}") from None
    if not isinstance(found, dict):
        raise _malformed("The body of the request is not a JSON object.")
    return found


def text_in(fields: dict[str, Any], *names: str) -> str:
    """The first of these fields that exists; clients call the statement `ksql` or `sql`."""
    for name in names:
        if isinstance(fields.get(name), str):
            return str(fields[name])
    raise _malformed(f"No JSON field '{names[0]}' found in the request.")


def mapping_in(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        found = fields.get(name)
        if isinstance(found, dict):
            return found
        if found is not None:
            raise _malformed(f"'{name}' is not a JSON object.")
    return {}


def _malformed(words: str) -> SqlError:
    return SqlError(
        words, remedy='For example: {"ksql": "SHOW STREAMS;"}', code=SqlCode.BAD_REQUEST
    )


def json_response(value: Any, request: Request | None = None, status: int = 200) -> Response:
    accept = request.headers.get("accept", "") if request else ""
    media = KSQL_JSON if KSQL_JSON in accept else JSON
    return Response(dumps(value), status, media_type=media)


def error_response(error: Exception, statement: str = "") -> Response:
    sql_error = as_sql_error(error)
    entity = error_entity(sql_error, statement)
    if "entities" in entity:
        entity["entities"] = sql_error.entities
    return Response(dumps(entity), int(sql_error.code) // 100, media_type=JSON)


def as_sql_error(error: Exception) -> SqlError:
    if isinstance(error, SqlError):
        return error
    if isinstance(error, KafkaError) and error.code in AUTHORIZATION:
        return SqlError(
            f"Not authorized by the Kafka cluster: {error}",
            remedy="The server's principal needs an ACL: see `kafka-acls --list`.",
            code=SqlCode.FORBIDDEN_KAFKA,
        )
    if isinstance(error, KafkaError):
        return SqlError(
            f"The request to the Kafka cluster failed: {error}",
            remedy="Is the broker running, and are bootstrap.servers right?",
            code=SqlCode.SERVER_ERROR,
        )
    log.error("Unexpected error while serving a request", exc_info=error)
    return SqlError(
        f"Unexpected error: {type(error).__name__}: {error}",
        remedy="See the server's log.",
        code=SqlCode.SERVER_ERROR,
    )
