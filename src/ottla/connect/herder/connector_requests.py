"""Requests that change connectors: create, configure, stop, restart, delete, alter offsets.

A method raises ConnectRestException, with the HTTP status, or RequestTargetException if another
worker must do it. The order of the checks, and the messages, are Kafka's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.connect.errors import ConnectException
from ottla.connect.herder import cluster_status, config_state
from ottla.connect.herder.config_state import RestartRequest
from ottla.connect.herder.connector_views import ConnectorViews, Json
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.rest_exceptions import bad_request, conflict, not_found, server_error
from ottla.connect.run.connector_offsets import ConnectorOffsets
from ottla.connect.run.connector_status import TargetState
from ottla.connect.secrets import unmasked
from ottla.connect.validation import misspelled

log = logging.getLogger("ottla.connect")

Validate = Callable[[Mapping[str, str]], Json]
OffsetsOf = Callable[[str, Mapping[str, str]], ConnectorOffsets]

UNKNOWN = "Unknown connector: {}"


class ConnectorRequests:
    """`validate` gives the answer of /config/validate; `offsets_of` a connector's offsets."""

    def __init__(
        self, herder: Herder, views: ConnectorViews, *, validate: Validate, offsets_of: OffsetsOf
    ) -> None:
        self._herder = herder
        self.views = views
        self._validate = validate
        self._offsets_of = offsets_of

    # Configs

    def create(
        self, name: str, config: Mapping[str, str], target: TargetState | None = None
    ) -> Json:
        self._check_valid(name, config)
        self._herder.check_is_leader()
        if name in self._herder.configs.connectors:
            raise conflict(f"Connector {name} already exists")
        self._put(name, config, target)
        return self.views.info(name)

    def put_config(
        self, name: str, config: Mapping[str, str], target: TargetState | None = None
    ) -> tuple[bool, Json]:
        """Returns whether the connector is new, and its info."""
        stored = self._herder.configs.connectors.get(name)
        config = unmasked(config, stored.config if stored else {})
        self._check_valid(name, config)
        self._herder.check_is_leader()
        created = name not in self._herder.configs.connectors
        self._put(name, config, target)
        return created, self.views.info(name)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """Removes settings whose value is null (KIP-477)."""
        self._herder.check_is_leader()
        stored = self._herder.stored(name).config
        config = {**stored, **patch}
        wanted = unmasked(
            {key: value for key, value in config.items() if value is not None}, stored
        )
        self._check_valid(name, wanted)
        self._put(name, wanted, None)
        return self.views.info(name)

    def delete(self, name: str) -> None:
        self._herder.check_is_leader()
        self._herder.stored(name)
        self._herder.write_configs(config_state.deletion_records(name))

    def _put(self, name: str, config: Mapping[str, str], target: TargetState | None) -> None:
        pairs = [config_state.connector_record(name, config)]
        if target is not None:
            pairs.insert(0, config_state.target_state_record(name, target))
        self._herder.write_configs(pairs)

    def _check_valid(self, name: str, config: Mapping[str, str]) -> None:
        found = self._validate(config)
        for sentence in misspelled(config, found):
            log.warning("Config of connector %s: %s", name, sentence)
        count = found["error_count"]
        if count:
            words = [
                f"Connector configuration is invalid and contains the following {count} error(s):"
            ]
            words += [
                message for config in found["configs"] for message in config["value"]["errors"]
            ]
            words.append(
                "You can also find the above list of errors at the endpoint"
                " `/connector-plugins/{connectorType}/config/validate`"
            )
            raise bad_request("\n".join(words))

    # Target states and restarts

    def pause(self, name: str) -> None:
        self._target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        """A stopped connector has no tasks, which is how clients see that its offsets may be
        altered."""
        self._herder.check_no_rebalance()
        self._herder.stored(name, "Unknown connector {}")
        self._herder.check_is_leader()
        self._herder.write_configs(
            [
                *config_state.task_config_records(name, []),
                config_state.target_state_record(name, TargetState.STOPPED),
            ]
        )

    def _target(self, name: str, target: TargetState) -> None:
        self._herder.stored(name, "Unknown connector {}")
        self._herder.write_configs([config_state.target_state_record(name, target)])

    def restart_connector(self, name: str) -> None:
        """The connector without its tasks; done by its owner, at once."""
        self._herder.check_no_rebalance()
        self._herder.stored(name, UNKNOWN)
        self._herder.check_is_owner(name)
        self._herder.restart_here(RestartRequest(name))

    def restart(self, restart: RestartRequest) -> Json:
        """Writes a restart record for the owner to read; answers with the planned states."""
        self._herder.check_no_rebalance()
        self._herder.stored(restart.connector, UNKNOWN)
        self._herder.check_is_leader()
        planned = self.views.restarting(restart)
        self._herder.write_configs([config_state.restart_record(restart)])
        return planned

    def restart_task(self, name: str, task: int) -> None:
        self._herder.check_no_rebalance()
        stored = self._herder.stored(name, UNKNOWN)
        if task >= len(stored.tasks):
            raise not_found(f"Unknown task: {name}-{task}")
        self._herder.check_is_owner(name)
        try:
            self._herder.restart_task_here(name, task)
        except KeyError:
            raise server_error(f"Failed to start task: {name}-{task}") from None

    def reset_topics(self, name: str) -> None:
        used = self._herder.statuses.topics.get(name, ())
        self._herder.write_statuses(
            [cluster_status.topic_status_tombstone(name, topic) for topic in used]
        )

    def set_cluster_level(self, logger: str, level: str) -> None:
        self._herder.write_configs([config_state.logger_level_record(logger, level)])

    # Offsets

    def offsets(self, name: str) -> Json:
        config = self._herder.stored(name).config
        return {"offsets": self._as_server_error(lambda: self._offsets_of(name, config).read())}

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]]) -> Json:
        offsets = self._stopped(name)
        return {"message": self._as_server_error(lambda: offsets.alter(entries))}

    def reset_offsets(self, name: str) -> Json:
        offsets = self._stopped(name)
        return {"message": self._as_server_error(offsets.reset)}

    def _stopped(self, name: str) -> ConnectorOffsets:
        self._herder.check_is_leader()
        self._herder.read_to_end()
        stored = self._herder.stored(name)
        if stored.target is not TargetState.STOPPED or stored.tasks:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified."
                " This can be done for the specified connector by issuing a 'PUT' request to the"
                f" '/connectors/{name}/stop' endpoint"
            )
        return self._offsets_of(name, stored.config)

    def _as_server_error(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ConnectException as error:
            raise server_error(str(error)) from error
