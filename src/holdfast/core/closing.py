"""Close a client: release its holds, then end its connections.

The first call of `close` does the work. Each later call waits for the first one, and continues the
work if the first one was interrupted. While the first one is at work, no later call ends the
connections: holds that are not released yet would stay in the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

from .model import Loss
from .ports import Latch, Undo

if TYPE_CHECKING:
    from .context import Context

#: Seconds in which a client that is closed releases all its holds.
CLOSE_S = 1.0
#: Seconds between two checks of a close that waits for the settles of other threads.
LOOK_S = 0.005
#: Seconds that a close waits for another close that is under way.
WAIT_S = CLOSE_S + 2.0


class _Closer:
    """One call of close, in its thread or task."""

    __slots__ = ("flow",)

    def __init__(self, flow: Hashable) -> None:
        self.flow = flow


class Closing:
    """The end of one client, which several threads or tasks can close at the same time."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        #: The call that does the work, under key 0: `setdefault` is atomic, so only one call is
        #: set.
        self._by: dict[int, _Closer] = {}
        self._latches: list[Latch] = []
        #: The undos that are still to be carried out.
        self.left: deque[Undo] = deque()

    async def run(self) -> None:
        """Release all holds, and end the connections."""
        ctx = self._ctx
        until = ctx.now() + WAIT_S
        me = _Closer(ctx.runtime.flow())
        while not ctx.ended:
            try:
                first = self._by.setdefault(0, me)
                if first is me:
                    await self._close()
                    return
            finally:
                if self._by.get(0) is me:
                    del self._by[0]
                    for latch in list(self._latches):
                        latch.set()
            if first.flow == me.flow:
                return  # called by a callback or signal handler of the first call, which continues
            if not await self._first_one_ends(until):
                return  # the other call is still at work

    async def _first_one_ends(self, until: float) -> bool:
        """Wait until no other call is closing; False if the time expires first."""
        ctx = self._ctx
        latch = ctx.runtime.latch()
        self._latches.append(latch)
        try:
            while self._by and (now := ctx.now()) < until:
                await latch.wait(until - now)
        finally:
            self._latches.remove(latch)
        return not self._by

    async def _close(self) -> None:
        ctx = self._ctx
        if not ctx.closed and (ctx.commons or ctx.untold):
            from .guard.commons import tell_all  # here, because few programs have guards

            await tell_all(ctx)
        self.stop()
        until = ctx.now() + CLOSE_S
        interrupt: BaseException | None = None
        while self.left:
            try:  # an interrupt must not stop it: nothing else would release the rest
                await ctx.put_back(self.left.popleft(), until, CLOSE_S)
            except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
                raise
            except BaseException as stop:
                interrupt = interrupt or stop
        while ctx.settling and interrupt is None and ctx.now() < until:
            await ctx.runtime.sleep(LOOK_S)  # another thread may still have to send its settle
        await ctx.store.close()  # if this is interrupted, close may be called again
        ctx.ended = True
        if interrupt is not None:
            raise interrupt

    def stop(self) -> None:
        """End all holding and renewing; ``left`` then contains the undos to carry out."""
        ctx = self._ctx
        ctx.closed = True
        ctx.keeper.stop()
        # `under_way` is read before and after the renewer, because another thread can meanwhile
        # move a new hold from `under_way` to the renewer, or move a hold back to release it.
        under_way = dict(ctx.under_way)
        self.left.extend(ctx.keeper.give_up(Loss.CLOSED))
        under_way.update(ctx.under_way)
        for undos in under_way.values():
            self.left.extend(undos())
