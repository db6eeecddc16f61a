"""Feeds of another library over PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..contenders import peer
from ..feeds import BODY, Feeder
from ..servers import url


class Procrastinate:
    """procrastinate with default settings, one job at a time; the first use makes its tables."""

    def __init__(self, place: Path) -> None:
        module = peer("procrastinate")
        self._loop = asyncio.new_event_loop()
        self._app: Any = module.App(connector=module.PsycopgConnector(conninfo=url()))
        self._queue = place.name
        self._loop.run_until_complete(self._open())

        @self._app.task(name="nothing", queue=self._queue)  # type: ignore[untyped-decorator]
        async def nothing(body: str) -> None:
            del body

        self._job = nothing

    async def _open(self) -> None:
        await self._app.open_async()
        if not await self._app.check_connection_async():
            await self._app.schema_manager.apply_schema_async()

    def put(self, jobs: int) -> None:
        async def defer() -> None:
            for _ in range(jobs):
                await self._job.defer_async(body=BODY)

        self._loop.run_until_complete(defer())

    def work(self, jobs: int) -> None:
        del jobs  # the worker ends when the queue is empty
        self._loop.run_until_complete(
            self._app.run_worker_async(
                queues=[self._queue], wait=False, install_signal_handlers=False
            )
        )

    def take(self) -> Callable[[], object]:
        raise RuntimeError("it isn't measured")

    def close(self) -> None:
        self._loop.run_until_complete(self._app.close_async())
        self._loop.close()


FEEDERS = (Feeder("procrastinate", Procrastinate, package="procrastinate", slow=5),)
