"""A connector that runs: started, watched, paused, restarted, stopped.

    running = start("lines", config, generation=1, spark=session.start, worker=Worker(properties),
                    on_state=print)
    running.status      running.pause()      running.stop()

A task that fails stays failed and the others go on, as in Kafka; what is the broker's or Spark's
trouble is tried again, with back-off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.spark.connect.run.states import State, Status, Target
from ottla.spark.connect.run.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(
    name: str,
    config: Mapping[str, str],
    *,
    spark: Callable[[], SparkSession],
    worker: Worker,
    generation: int = 0,
    target: Target = Target.STARTED,
    on_state: Callable[[Status], None] = lambda status: None,
) -> Running:
    """Returns at once. `spark` is called when a session is needed, and again if it died.

    `on_state` is called in a thread of the runner's, with every change.
    """
    return Running(name, config, spark, worker, generation, target, on_state)


class Running:
    """One connector. Every method may be called by any thread; only `stop` waits."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        spark: Callable[[], SparkSession],
        worker: Worker,
        generation: int,
        target: Target,
        on_state: Callable[[Status], None],
    ) -> None:
        self.name = name
        self.config = dict(config)
        self.generation = generation
        self._status = Status(name, State.UNASSIGNED, generation=generation)

    @property
    def status(self) -> Status:
        return self._status

    @property
    def task_configs(self) -> list[dict[str, str]]:
        """Empty until the connector has said them."""
        return []

    def pause(self) -> None:
        """No batch runs; tasks are stopped, and the connector is not."""

    def resume(self) -> None: ...

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """The connector, its tasks, or only what of them has failed."""

    def restart_task(self, task: int) -> None:
        """KeyError: there is no such task."""

    def stop(self) -> None:
        """When it returns, nothing of this connector runs."""
