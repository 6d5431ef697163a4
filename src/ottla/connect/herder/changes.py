"""What a person asks of the connectors: made, changed, stopped, restarted, deleted.

Each method does it or says why not (Refusal), or who does (Elsewhere). The order of the checks and
their words are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.connect.errors import ConnectException
from ottla.connect.herder import configs as config_log
from ottla.connect.herder import statuses as status_log
from ottla.connect.herder.answers import Answers, Json
from ottla.connect.herder.configs import Restart
from ottla.connect.herder.herder import Herder
from ottla.connect.herder.refusals import bad_request, conflict, not_found, server_error
from ottla.connect.run.offsets import ConnectorOffsets
from ottla.connect.run.states import Target
from ottla.connect.secrets import unmasked

Validate = Callable[[Mapping[str, str]], Json]
OffsetsOf = Callable[[str, Mapping[str, str]], ConnectorOffsets]

UNKNOWN = "Unknown connector: {}"


class Changes:
    """`validate` is what /config/validate answers; `offsets_of` is how far a connector has come."""

    def __init__(
        self, herder: Herder, answers: Answers, *, validate: Validate, offsets_of: OffsetsOf
    ) -> None:
        self._herder = herder
        self.answers = answers
        self._validate = validate
        self._offsets_of = offsets_of

    # Configs

    def create(self, name: str, config: Mapping[str, str], target: Target | None = None) -> Json:
        self._check_valid(config)
        self._herder.check_leads()
        if name in self._herder.configs.connectors:
            raise conflict(f"Connector {name} already exists")
        self._put(name, config, target)
        return self.answers.info(name)

    def put_config(
        self, name: str, config: Mapping[str, str], target: Target | None = None
    ) -> tuple[bool, Json]:
        """Was it made by this? And what it is now."""
        kept = self._herder.configs.connectors.get(name)
        config = unmasked(config, kept.config if kept else {})
        self._check_valid(config)
        self._herder.check_leads()
        created = name not in self._herder.configs.connectors
        self._put(name, config, target)
        return created, self.answers.info(name)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """A setting without a value is taken away (KIP-477)."""
        self._herder.check_leads()
        kept = self._herder.kept(name).config
        config = {**kept, **patch}
        wanted = unmasked({key: each for key, each in config.items() if each is not None}, kept)
        self._check_valid(wanted)
        self._put(name, wanted, None)
        return self.answers.info(name)

    def delete(self, name: str) -> None:
        self._herder.check_leads()
        self._herder.kept(name)
        self._herder.write_configs(config_log.deletion(name))

    def _put(self, name: str, config: Mapping[str, str], target: Target | None) -> None:
        pairs = [config_log.connector_pair(name, config)]
        if target is not None:
            pairs.insert(0, config_log.target_pair(name, target))
        self._herder.write_configs(pairs)

    def _check_valid(self, config: Mapping[str, str]) -> None:
        found = self._validate(config)
        count = found["error_count"]
        if count:
            words = [
                f"Connector configuration is invalid and contains the following {count} error(s):"
            ]
            words += [told for each in found["configs"] for told in each["value"]["errors"]]
            words.append(
                "You can also find the above list of errors at the endpoint"
                " `/connector-plugins/{connectorType}/config/validate`"
            )
            raise bad_request("\n".join(words))

    # To run or not to run

    def pause(self, name: str) -> None:
        self._target(name, Target.PAUSED)

    def resume(self, name: str) -> None:
        self._target(name, Target.STARTED)

    def stop(self, name: str) -> None:
        """It has no tasks then: whoever lists them sees that its offsets may be changed."""
        self._herder.check_settled()
        self._herder.kept(name, "Unknown connector {}")
        self._herder.check_leads()
        self._herder.write_configs(
            [*config_log.task_pairs(name, []), config_log.target_pair(name, Target.STOPPED)]
        )

    def _target(self, name: str, target: Target) -> None:
        self._herder.kept(name, "Unknown connector {}")
        self._herder.write_configs([config_log.target_pair(name, target)])

    def restart_connector(self, name: str) -> None:
        """Not its tasks: by whoever has it, and at once."""
        self._herder.check_settled()
        self._herder.kept(name, UNKNOWN)
        self._herder.check_owns(name)
        self._herder.restart_here(Restart(name))

    def restart(self, restart: Restart) -> Json:
        """By a record that its owner reads; answered is what it will do."""
        self._herder.check_settled()
        self._herder.kept(restart.connector, UNKNOWN)
        self._herder.check_leads()
        planned = self.answers.restarting(restart)
        self._herder.write_configs([config_log.restart_pair(restart)])
        return planned

    def restart_task(self, name: str, task: int) -> None:
        self._herder.check_settled()
        kept = self._herder.kept(name, UNKNOWN)
        if task >= len(kept.tasks):
            raise not_found(f"Unknown task: {name}-{task}")
        self._herder.check_owns(name)
        try:
            self._herder.restart_task_here(name, task)
        except KeyError:
            raise server_error(f"Failed to start task: {name}-{task}") from None

    def reset_topics(self, name: str) -> None:
        used = self._herder.statuses.topics.get(name, ())
        self._herder.write_statuses([status_log.topic_forgotten(name, each) for each in used])

    def set_cluster_level(self, logger: str, level: str) -> None:
        self._herder.write_configs([config_log.logger_pair(logger, level)])

    # Offsets

    def offsets(self, name: str) -> Json:
        config = self._herder.kept(name).config
        return {"offsets": self._told(lambda: self._offsets_of(name, config).read())}

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]]) -> Json:
        offsets = self._stopped(name)
        return {"message": self._told(lambda: offsets.alter(entries))}

    def reset_offsets(self, name: str) -> Json:
        offsets = self._stopped(name)
        return {"message": self._told(offsets.reset)}

    def _stopped(self, name: str) -> ConnectorOffsets:
        self._herder.check_leads()
        self._herder.caught_up()
        kept = self._herder.kept(name)
        if kept.target is not Target.STOPPED or kept.tasks:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified."
                " This can be done for the specified connector by issuing a 'PUT' request to the"
                f" '/connectors/{name}/stop' endpoint"
            )
        return self._offsets_of(name, kept.config)

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ConnectException as error:
            raise server_error(str(error)) from error
