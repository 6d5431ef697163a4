"""What the parts of Admin share: librdkafka's admin client, and our own connections."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient

from ottla.client.bootstrap_servers import parse_bootstrap_servers
from ottla.client.delivery import Setting
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.permissions import denied
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.probe import probe
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, librdkafka_settings
from ottla.errors import ErrorCode, KafkaError

TIMEOUT_S: Final = 30.0

_K = TypeVar("_K")


class AdminSession:
    """Both are opened at their first use: most commands need one of them."""

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, Setting], timeout_s: float
    ) -> None:
        parse_bootstrap_servers(bootstrap_servers)  # fail now, not at the first use
        self.bootstrap_servers = bootstrap_servers
        self.settings = settings
        self.timeout_s = timeout_s
        self._opened: list[ConnectionPool] = []

    @cached_property
    def connections(self) -> ConnectionPool:
        connections = ConnectionPool(
            self.bootstrap_servers, settings=self.settings, timeout_s=self.timeout_s
        )
        self._opened.append(connections)
        return connections

    @cached_property
    def librdkafka(self) -> AdminClient:
        probe(self.bootstrap_servers, self.settings)
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            **librdkafka_settings(self.settings),
            "error_cb": ConnectionErrors(self.settings).on_error,
            "log_level": LOG_LEVEL,
        }
        return client_with(AdminClient, config)

    def wait(self, future: concurrent.futures.Future[Any]) -> Any:
        """The result of librdkafka's future; failures as KafkaErrors."""
        try:
            return future.result(self.timeout_s)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None
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
        """For each key `of(result)` or its KafkaError, which names the ACL that is needed if there
        is an `api_key`."""
        results: dict[_K, Any] = {}
        for key, future in futures.items():
            try:
                results[key] = of(self.wait(future))
            except KafkaError as error:
                results[key] = error if api_key is None else denied(error, api_key, str(key))
        return results

    def call(self, what: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Call librdkafka; immediate failures as KafkaErrors."""
        try:
            return what(*arguments, **named)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None
        except (ValueError, TypeError) as error:  # confluent-kafka's way to refuse arguments
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    def close(self) -> None:
        for connections in self._opened:
            connections.close()
        self.__dict__.pop("librdkafka", None)
