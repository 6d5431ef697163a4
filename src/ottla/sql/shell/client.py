"""A client of ksqlDB's REST API, with the standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

from ottla.rows.errors import SqlCode, SqlError

KSQL_JSON: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
CONNECT_S: Final = 10.0
STATEMENT_S: Final = 300.0
"""A statement may wait for Spark to start; a query may wait forever."""

Entity = dict[str, Any]


class ExactNumber(float):
    """A float that keeps its text, because a DECIMAL may have more digits."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


class KsqlServerUnreachable(Exception):
    """There is no server at this address, or the connection was lost."""


class StreamedRows:
    """The rows of a query as they come. `names` is empty for PRINT, whose rows are lines.

    Closing it, or leaving its `with`, closes the query on the server.
    """

    def __init__(self, connection: http.client.HTTPConnection, text: str) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        if self._response.status != http.client.OK:
            raise _refused(self._response.read(), text)
        self._text = text
        self.names: list[str] = []
        self.types: list[str] = []
        kind = self._response.headers.get_content_type()
        if kind != "text/plain":
            header = json.loads(self._response.readline() or b"{}")
            _raise_if_error(header, text)
            self.names = header.get("columnNames", [])
            self.types = header.get("columnTypes", [])

    def __iter__(self) -> Iterator[list[Any] | str]:
        try:
            while line := self._response.readline():
                if not self.names:
                    yield line.decode(errors="replace").rstrip("\r\n")
                elif line.strip():
                    row = json.loads(line, parse_float=ExactNumber)
                    _raise_if_error(row, self._text)
                    yield row
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise KsqlServerUnreachable(f"connection to the server lost: {error}") from None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KsqlRestClient:
    """A client of one server. Each request has its own connection, so that any thread may call."""

    def __init__(
        self, url: str, *, authorization: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._login = {"Authorization": authorization} if authorization else {}
        self._tls = tls
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if self._secure else 8088)

    def info(self) -> Entity:
        connection = self._sent("GET", "/info", None, CONNECT_S)
        with_all = json.loads(self._read(connection, ""))
        found: Entity = with_all.get("KsqlServerInfo", with_all)
        return found

    def check_property(self, name: str, value: str) -> None:
        """SqlError if the server does not know the property, or (Ottla's) rejects the value."""
        path = f"/is_valid_property/{quote(name, safe='')}?value={quote(value, safe='')}"
        try:
            self._read(self._sent("GET", path, None, CONNECT_S), "")
        except SqlError as error:
            if error.code is SqlCode.BAD_REQUEST:  # old versions of ksqlDB don't have this path
                raise

    def spark_state(self) -> str:
        """`starting`, `ready` or `failed`; empty if unknown, as with ksqlDB's server."""
        try:
            health = self._sent("GET", "/healthcheck", None, CONNECT_S)
            answer = json.loads(self._read(health, ""))
            return str(answer["details"]["spark"]["state"])
        except (SqlError, KsqlServerUnreachable, ValueError, LookupError, TypeError):
            return ""

    def execute(
        self, text: str, properties: Mapping[str, str], variables: Mapping[str, str]
    ) -> list[Entity]:
        body = {
            "ksql": text,
            "streamsProperties": dict(properties),
            "sessionVariables": dict(variables),
        }
        connection = self._sent("POST", "/ksql", body, STATEMENT_S, KSQL_JSON)
        found: list[Entity] = json.loads(self._read(connection, text))
        return found

    def query(
        self, text: str, properties: Mapping[str, str], variables: Mapping[str, str]
    ) -> StreamedRows:
        """Run a SELECT or PRINT; in ksqlDB only the old path supports PRINT."""
        session = {"sessionVariables": dict(variables)}
        if text.lstrip()[:5].upper() == "PRINT":
            body = {"ksql": text, "streamsProperties": dict(properties), **session}
            connection = self._sent("POST", "/query", body, None, KSQL_JSON)
        else:
            body = {"sql": text, "properties": dict(properties), **session}
            connection = self._sent("POST", "/query-stream", body, None, DELIMITED)
        try:
            return StreamedRows(connection, text)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise KsqlServerUnreachable(f"connection to the server lost: {error}") from None
        except BaseException:
            connection.close()
            raise

    def _sent(
        self, method: str, path: str, body: Any, wait_s: float | None, accept: str = KSQL_JSON
    ) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(
                self._host, self._port, timeout=CONNECT_S, context=self._tls
            )
            if self._secure
            else http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        )
        headers = {"Content-Type": KSQL_JSON, "Accept": accept, **self._login}
        try:
            connection.connect()
            connection.sock.settimeout(wait_s)
            connection.request(method, path, json.dumps(body) if body else None, headers)
        except OSError as error:
            connection.close()
            raise KsqlServerUnreachable(
                f"no server at {self.url}: {error.strerror or error}"
                "\n      `ottla sql-server` starts one; without --server the shell runs its own."
            ) from None
        return connection

    def _read(self, connection: http.client.HTTPConnection, text: str) -> bytes:
        try:
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise KsqlServerUnreachable(f"no answer from {self.url}: {error}") from None
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise _refused(data, text)
        return data


def _raise_if_error(value: Any, text: str) -> None:
    if isinstance(value, dict) and ("error_code" in value or "errorMessage" in value):
        raise _refused(json.dumps(value).encode(), text)


def _refused(data: bytes, text: str) -> SqlError:
    try:
        answer = json.loads(data)
    except ValueError:
        answer = {"message": data.decode(errors="replace")[:500]}
    if isinstance(answer.get("errorMessage"), dict):
        answer = answer["errorMessage"]
    message = str(answer.get("message") or answer)
    remedy = str(answer.get("remedy") or "")
    line, column = int(answer.get("line") or 0), int(answer.get("column") or 0)
    message = message.removeprefix(f"line {line}:{column}: ").removesuffix(f"\n{remedy}")
    code = answer.get("error_code")
    return SqlError(
        message,
        remedy=remedy,
        statement=text,
        line=line,
        column=column,
        code=SqlCode(code) if code in list(SqlCode) else SqlCode.BAD_STATEMENT,
    )
