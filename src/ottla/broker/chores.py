"""What a broker does periodically: retention, checkpoints, flushes, expiry, certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.credentials import Credentials
from ottla.broker.replication import Replication
from ottla.broker.scheduler import BackgroundJob, Scheduler
from ottla.broker.security import Security
from ottla.cluster.controller import Controller
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.config import ServerConfig
from ottla.replica.partitions import Partitions
from ottla.storage.store import LogStore

SWEEP_INTERVAL_MS: Final = 10_000
FLUSH_INTERVAL_MS_MAX: Final = 60_000


class Chores:
    """The periodic tasks. `stop` waits for background jobs that are running."""

    def __init__(
        self,
        store: LogStore,
        partitions: Partitions,
        replication: Replication,
        security: Security,
        credentials: Credentials,
        controller: Controller,
        settings: RuntimeSettings,
        *,
        config: Callable[[], ServerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._partitions = partitions
        self._replication = replication
        self._security = security
        self._credentials = credentials
        self._controller = controller
        self._settings = settings
        self._config = config
        self._scheduler = Scheduler(now_ms)
        self._checkpointed_ms = now_ms()

    def start(self) -> None:
        """With the intervals that are configured now; later changes of them have no effect."""
        config, every = self._config(), self._scheduler.every
        every(config.log_retention_check_interval_ms, "retention", self._retain)
        interval_ms = min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
        )
        every(interval_ms, "checkpoints", self._checkpoint)
        interval_ms = config.producer_id_expiration_check_interval_ms
        every(interval_ms, "producers", self._expire_producers)
        delay_ms = max(100, config.log_segment_delete_delay_ms)
        every(min(SWEEP_INTERVAL_MS, delay_ms), "removal", self._remove)
        # How often to look for logs whose flush.ms has passed.
        interval_ms = min(config.log_flush_scheduler_interval_ms, FLUSH_INTERVAL_MS_MAX)
        every(interval_ms, "flush", self._flush)
        interval_ms = config.delegation_token_expiry_check_interval_ms
        every(interval_ms, "tokens", self._expire_tokens)
        every(config.ottla_ssl_files_check_interval_ms, "certificates", self._refresh)
        # A follower that lags is found within half of the time that it may lag.
        every(config.replica_lag_time_max_ms // 2, "in-sync sets", self._replication.check_isr)

    async def stop(self) -> None:
        await self._scheduler.stop()

    def _retain(self, now_ms: int) -> None:
        if self._store.retain(now_ms, self._partitions.high_watermarks()):
            for partition in self._partitions:
                partition.tail.wake_all()  # followers delete what their leader has deleted

    def _checkpoint(self, now_ms: int) -> list[BackgroundJob]:
        """High watermarks more often than the rest, if any of them is not simply the log's end."""
        config = self._config()
        interval_ms = config.log_flush_offset_checkpoint_interval_ms
        often_ms = config.replica_high_watermark_checkpoint_interval_ms
        is_due = not often_ms < interval_ms or now_ms - self._checkpointed_ms >= interval_ms
        if not is_due and not any(len(held.replicas) > 1 for held in self._partitions):
            return []
        self._checkpointed_ms = now_ms
        job = self._store.checkpoint_job(self._partitions.high_watermarks())
        return [] if job is None else [BackgroundJob(job.run, lambda _: job.done())]

    def _expire_producers(self, now_ms: int) -> None:
        self._store.expire_producers(now_ms, self._config().producer_id_expiration_ms)

    def _expire_tokens(self, now_ms: int) -> None:
        if self._controller.active:
            self._credentials.expire(self._settings, now_ms)

    def _remove(self, now_ms: int) -> list[BackgroundJob]:
        job = self._store.remove_job(now_ms)
        return [] if job is None else [BackgroundJob(job.run)]

    def _flush(self, now_ms: int) -> list[BackgroundJob]:
        return [BackgroundJob(job.run, job.done) for job in self._store.flush_jobs(now_ms)]

    def _refresh(self, now_ms: int) -> None:
        self._security.refresh()
