"""The port under asyncio with sentinels: it asks the sentinels for the primary before it
connects."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Sentinel
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError as NotFound
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.sentinel import MasterNotFoundError

from ....runtime.timers.aio import time_limit
from ..blocking.dial import error_of
from ..blocking.sentinel import hurried, known_first, nobody, step_of
from ..config import Settings
from ..topology import Place, Sentinels
from .port import LoopPort

_new: Any = Sentinel


class WatchedLoopPort(LoopPort):
    """See :class:`holdfast.stores.redis.store.Port`."""

    def __init__(self, watch: Sentinels) -> None:
        super().__init__(watch.settings)
        self._watch = watch

    async def _where(self) -> Settings:
        try:
            async with time_limit(self._attempt_s()):
                host, port = await self._primary()
        except (TimeoutError, OSError, RedisError) as wrong:
            raise error_of(self._watch.settings, wrong) from None
        arguments = {**self._settings.arguments, "host": host, "port": port}
        return self._settings._replace(arguments=arguments)

    async def _primary(self) -> Place:
        watch = self._watch
        step = step_of(len(watch.places), self._attempt_s())
        sentinel = _new(
            list(watch.places),
            min_other_sentinels=watch.others,
            sentinel_kwargs={**watch.arguments, **hurried(step), "retry": Retry(NoBackoff(), 0)},
            force_master_ip=watch.force_ip,
        )
        try:
            host, port = await sentinel.discover_master(watch.service)
        except (MasterNotFoundError, NotFound) as wrong:
            raise nobody(watch, wrong) from None
        finally:
            for one in sentinel.sentinels:
                await one.aclose()
        at = sentinel.sentinels[0].connection_pool.connection_kwargs
        self._watch = known_first(watch, (at["host"], at["port"]))
        return host, int(port)
