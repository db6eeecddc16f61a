"""The lines of claims under asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.model import Claim, Granted, Waiting
from ....runtime.blocking import boottime
from ....runtime.timers.aio import sleep
from ....url import StoreURL
from ..blocking.engine import Engine
from ..blocking.port import POLL_FIRST_S, POLL_LAST_S
from ..blocking.session import Alarm
from .loop import LATE_S, Loop

if TYPE_CHECKING:
    from ..guards import ValuePort
    from ..queues import JobPort
    from .guards import LoopValues
    from .jobs import LoopJobs


class LoopPort(Loop[Engine]):
    """See :class:`holdfast.stores.sqlite.store.Port`."""

    def __init__(self, url: StoreURL) -> None:
        super().__init__(lambda mail: Engine(url, mail))
        self._url = url
        self._jobs: LoopJobs | None = None
        self._values: LoopValues | None = None

    def jobs(self) -> JobPort:
        """The port of the serial queues, made at its first use."""
        if self._jobs is None:
            from .jobs import LoopJobs  # because few programs have queues

            self._jobs = LoopJobs(self._url)
        return self._jobs

    def values(self) -> ValuePort:
        """The port of the refresh guards, made at its first use."""
        if self._values is None:
            from .guards import LoopValues  # because few programs have guards

            self._values = LoopValues(self._url)
        return self._values

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken, until a watched session has ended, or for ``seconds``."""
        if self.mail.known(claim.id) is None:
            return await self._look(claim, waiting, seconds)
        return await self._sleep(claim.id, seconds, waiting.watch)

    async def _look(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Poll the row of the claim, which has no socket."""
        end = boottime() + seconds
        nap = POLL_FIRST_S
        while (left := end - boottime()) > 0:
            await sleep(min(nap, left))
            nap = min(nap * 1.5, POLL_LAST_S)
            fence = await self.call(self.engine.peek, claim, waiting, left + LATE_S)
            if fence is not None:
                return Granted(fence) if fence else None
        return None

    def _alarm(self, session: str) -> Alarm:
        return self.engine.alarm(session)

    def unlisten(self, claim: Claim) -> None:
        """Forget the claim's wake-ups."""
        self.mail.release(claim.id)

    # -- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """Close queues, values and locks, after all earlier requests."""
        try:
            if self._jobs is not None:
                await self._jobs.close()
        finally:
            try:
                if self._values is not None:
                    await self._values.close()
            finally:
                await super().close()

    def abandon(self) -> None:
        """Close without the loop, which has ended."""
        super().abandon()
        for beside in (self._jobs, self._values):
            if beside is not None:
                beside.abandon()

    def forked(self) -> None:
        """Start again in the child of a fork."""
        super().forked()
        for beside in (self._jobs, self._values):
            if beside is not None:
                beside.forked()
