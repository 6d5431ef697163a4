"""The two ways to a cluster that an Admin shares: librdkafka's admin client, and plain lines."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient

from ottla.client.bootstrap_servers import parse_servers
from ottla.client.delivery import Setting
from ottla.client.failures import failure_of
from ottla.client.permissions import denied
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.probe import probe
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, translate
from ottla.errors import ErrorCode, KafkaError

TIMEOUT_S: Final = 30.0

_K = TypeVar("_K")


class Session:
    """Both are opened at their first use: most commands need one of them."""

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, Setting], timeout_s: float
    ) -> None:
        parse_servers(bootstrap_servers)  # what is no address is refused now, not when it is used
        self.bootstrap_servers = bootstrap_servers
        self.settings = settings
        self.timeout_s = timeout_s
        self._opened: list[ConnectionPool] = []

    @cached_property
    def lines(self) -> ConnectionPool:
        lines = ConnectionPool(
            self.bootstrap_servers, settings=self.settings, timeout_s=self.timeout_s
        )
        self._opened.append(lines)
        return lines

    @cached_property
    def librdkafka(self) -> AdminClient:
        probe(self.bootstrap_servers, self.settings)
        wishes: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            **translate(self.settings),
            "error_cb": ConnectionErrors(self.settings).tell,
            "log_level": LOG_LEVEL,
        }
        return client_with(AdminClient, wishes)

    def wait(self, future: concurrent.futures.Future[Any]) -> Any:
        """What a future of librdkafka's gives; its failure as ours."""
        try:
            return future.result(self.timeout_s)
        except confluent_kafka.KafkaException as error:
            raise failure_of(error) from None
        except concurrent.futures.TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.bootstrap_servers} did not answer in {self.timeout_s} s",
            ) from None

    def wait_each(
        self,
        futures: Mapping[_K, concurrent.futures.Future[Any]],
        of: Callable[[Any], Any] = lambda result: None,
        *,
        api_key: int | None = None,
    ) -> dict[_K, Any]:
        """For each, `of(result)` or the KafkaError that it failed with; with an `api_key` that
        error has the ACL to ask for."""
        results: dict[_K, Any] = {}
        for key, future in futures.items():
            try:
                results[key] = of(self.wait(future))
            except KafkaError as error:
                results[key] = error if api_key is None else denied(error, api_key, str(key))
        return results

    def call(self, what: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """A call into librdkafka that may fail at once."""
        try:
            return what(*arguments, **named)
        except confluent_kafka.KafkaException as error:
            raise failure_of(error) from None
        except (ValueError, TypeError) as error:  # how confluent-kafka refuses arguments
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    def close(self) -> None:
        for lines in self._opened:
            lines.close()
        self.__dict__.pop("librdkafka", None)
