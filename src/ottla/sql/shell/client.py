"""ksqlDB's REST from the client's side, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

from ottla.rows.errors import SqlCode, SqlError

KSQL_JSON: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
CONNECT_S: Final = 10.0
STATEMENT_S: Final = 300.0
"""A statement may wait for Spark to start; a query may wait for ever."""

Entity = dict[str, Any]


class Exact(float):
    """A number with a point, and how the server wrote it: a DECIMAL may have more digits."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


class Unreachable(Exception):
    """There is no server at this address, or it went away."""


class Rows:
    """The answer to a query as it comes. `names` is empty for PRINT, whose rows are lines.

    Closing it, or leaving its `with`, ends the query at the server.
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
                    row = json.loads(line, parse_float=Exact)
                    _raise_if_error(row, self._text)
                    yield row
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"the server went away: {error}") from None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Client:
    """One server. A connection for each request: two at once are no trouble to each other."""

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
        """SqlError if the server takes no such property, or (Ottla's) not with this value."""
        path = f"/is_valid_property/{quote(name, safe='')}?value={quote(value, safe='')}"
        try:
            self._read(self._sent("GET", path, None, CONNECT_S), "")
        except SqlError as error:
            if error.code is SqlCode.BAD_REQUEST:  # an older ksqlDB has no such address
                raise

    def spark_state(self) -> str:
        """`starting`, `ready`, `failed`; nothing, if it is not Ottla's server or does not say."""
        try:
            health = self._sent("GET", "/healthcheck", None, CONNECT_S)
            told = json.loads(self._read(health, ""))
            return str(told["details"]["spark"]["state"])
        except (SqlError, Unreachable, ValueError, LookupError, TypeError):
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

    def query(self, text: str, properties: Mapping[str, str], variables: Mapping[str, str]) -> Rows:
        """A SELECT, or a PRINT: that one is known to ksqlDB's older address only."""
        session = {"sessionVariables": dict(variables)}
        if text.lstrip()[:5].upper() == "PRINT":
            body = {"ksql": text, "streamsProperties": dict(properties), **session}
            connection = self._sent("POST", "/query", body, None, KSQL_JSON)
        else:
            body = {"sql": text, "properties": dict(properties), **session}
            connection = self._sent("POST", "/query-stream", body, None, DELIMITED)
        try:
            return Rows(connection, text)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"the server went away: {error}") from None
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
            raise Unreachable(
                f"no server at {self.url}: {error.strerror or error}"
                "\n      `ottla sql-server` starts one; without --server the shell has its own."
            ) from None
        return connection

    def _read(self, connection: http.client.HTTPConnection, text: str) -> bytes:
        try:
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no answer from {self.url}: {error}") from None
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
        told = json.loads(data)
    except ValueError:
        told = {"message": data.decode(errors="replace")[:500]}
    if isinstance(told.get("errorMessage"), dict):
        told = told["errorMessage"]
    message = str(told.get("message") or told)
    remedy = str(told.get("remedy") or "")
    line, column = int(told.get("line") or 0), int(told.get("column") or 0)
    message = message.removeprefix(f"line {line}:{column}: ").removesuffix(f"\n{remedy}")
    code = told.get("error_code")
    return SqlError(
        message,
        remedy=remedy,
        statement=text,
        line=line,
        column=column,
        code=SqlCode(code) if code in list(SqlCode) else SqlCode.BAD_STATEMENT,
    )
