"""The state of one AsyncClient, separate for each event loop that uses the client.

A connection, a renewer and a future belong to one event loop. So a client that is made at import
time opens them in each loop that uses it, and closes them with that loop. Objects that were made in
another loop (a lock of a decorator, a queue) have a twin in each loop: `here` finds it. In the loop
of the object, `here` costs only one comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from asyncio.events import _get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import FrameType
from typing import Any, TypeVar
from weakref import ReferenceType, ref

from ..core.closing import CLOSE_S
from ..core.context import NOWHERE, Context
from ..core.door import handed_over
from ..core.place import Place
from ..core.ports import Undo
from ..runtime.aio import another_loop, call_in, require_loop
from ..runtime.timers.aio import ended, sleep

log = logging.getLogger("holdfast")

T = TypeVar("T")

#: Seconds for which an ending loop waits for its holders to release; seconds between two checks.
LEAVE_S, LEAVE_STEP_S = 0.2, 0.005
#: Maximum seconds for which a close waits for the closes in the loops of other threads.
ELSEWHERE_S = CLOSE_S + 2.0


class Loops:
    """The states of one client, by event loop. The first loop gets the state of the constructor."""

    #: True if a state is closed with its loop. Tests that look for forgotten holds set this to
    #: False.
    ends = True

    def __init__(self, first: Context, make: Callable[[], Context]) -> None:
        self._first = first
        self._make = make
        self._lock = threading.Lock()
        self._of: dict[asyncio.AbstractEventLoop, Context] = {}
        self._closed = False
        first.home = self

    def find(self, loop: asyncio.AbstractEventLoop) -> Context:
        """Return the client state of a loop; it is made and bound to that loop at the first use."""
        ended = []
        with self._lock:
            found = self._of.get(loop)
            if found is not None:
                return found
            if self._closed:
                return self._first
            ended = [one for one in self._of if one.is_closed()]
            contexts = [self._of.pop(one) for one in ended]
            found = self._first if self._first.place is NOWHERE else self._make()
            found.home, found.place, found.runs = self, loop, _runs(loop)
            self._of[loop] = found
        found.runtime.bind()
        if self.ends:
            found.ending = _begin(found, loop)
        for context in contexts:
            left = _abandon(context)
            if left and hasattr(context.store, "inherit"):
                found.runtime.follow(self._give_back(context, left), "releasing what is left")
                continue
            for undo in left:  # this loop's renewer carries it out; or, if the loop ends, the next
                found.keeper.later(undo, found.now() + undo.ttl)
        return found

    async def close(self) -> None:
        """Close the client in all loops; then raise the first error.

        A loop that runs in another thread closes its own state. Holds of a loop that doesn't run
        are released in the running loop.
        """
        running = require_loop()
        with self._lock:
            self._closed = True
            contexts = dict(self._of)
            if not contexts:
                contexts[running] = self._first
        mine = contexts.pop(running, None)
        failures: list[BaseException] = []
        asked, idle = _ask_to_close(contexts)
        for ctx in idle:
            await _gather(failures, self._give_back(ctx, _abandon(ctx)))
        await _gather(failures, _all_closed(asked, failures))
        for ctx in filter(_stands, asked.values()):
            await _gather(failures, self._give_back(ctx, _abandon(ctx)))
        if mine is not None:
            await _gather(failures, close_here(mine))
        _raise_first(failures)

    async def _give_back(self, ctx: Context, left: list[Undo]) -> None:
        """Release the holds of a loop that doesn't run, over connections of this loop."""
        if left:
            fresh = self._make()
            fresh.runtime.bind()
            # Some stores identify a hold by more than its id: the new store inherits these data.
            inherit: Any = getattr(fresh.store, "inherit", None)
            if inherit is not None:
                inherit(ctx.store)
            fresh.closing.left.extend(left)
            await fresh.close()

    def left(self, one: Any, failure: BaseException | None, frame: FrameType) -> bool:
        """Return True if the statement of this frame entered this lock in another loop. That loop
        then releases the lock; ``LockLost`` if the lock was lost before."""
        with self._lock:
            contexts = {self._first, *self._of.values()}
        at = Place(frame)
        for ctx in contexts:
            lock = one if ctx is one._ctx else ctx.twins.get(one)
            door = getattr(lock, "_door", None)
            entry = door.entered(at) if door is not None and away(ctx) else None
            if door is not None and entry is not None:
                entry.leaving = True
                _in_loop_of(ctx, door.cut, entry)
                handed_over(entry.hold, one._what, failure)
                return True
        return False

    def forgotten(self) -> None:
        """Let the renewers end when they have no work: the client is no longer referenced."""
        for context in {self._first, *self._of.values()}:
            context.keeper.forgotten()

    def forked(self) -> None:
        """Reset in the child of a fork: the loops are the parent's."""
        self._lock = threading.Lock()
        contexts = {self._first, *self._of.values()}
        self._of = {}
        for one in contexts:
            one.forked()
            _of_the_parent.append(one.ending)
            one.place = one.runs = NOWHERE
            one.ending = None


class _Foreign:
    """The thread of a loop that doesn't show its thread (uvloop's), found at each use."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def _thread_id(self) -> int | None:
        return threading.get_ident() if _get_running_loop() is self._loop else None


def _runs(loop: asyncio.AbstractEventLoop) -> Any:
    """Return an object whose `_thread_id` is that of this loop, which runs here now. asyncio's own
    loops have this attribute; to ask for the running loop would cost a system call each time."""
    ours = isinstance(loop, asyncio.BaseEventLoop)
    tells = ours and getattr(loop, "_thread_id", None) == threading.get_ident()
    return loop if tells else _Foreign(loop)


#: The parent's objects in a forked child: kept, because otherwise their finalizers would run in the
#: child.
_of_the_parent: list[object] = []


def here(one: T) -> T:
    """Return this object for the running event loop: itself, or its twin."""
    ctx: Context = one._ctx  # type: ignore[attr-defined]
    if ctx.runs._thread_id == threading.get_ident():
        return one
    loop = _get_running_loop()
    if ctx.place is loop or loop is None:
        if ctx.place is NOWHERE:
            require_loop()
        return one
    return twin(one, ctx.home.find(loop))


def bound(one: T) -> T:
    """Like `here`, for a method that begins something in a loop. Raise if no loop runs."""
    found = here(one)
    ctx: Context = found._ctx  # type: ignore[attr-defined]
    if ctx.closed:
        ctx.require_open()
    ctx.runtime.bind()
    return found


def twin(one: T, ctx: Context) -> T:
    """Return the twin of a client's object in this state; return any other object unchanged."""
    own: Context | None = getattr(one, "_ctx", None)
    if own is None or own is ctx or own.home is not ctx.home:
        return one
    if one not in ctx.twins:
        ctx.twins[one] = one._moved(ctx)  # type: ignore[attr-defined]
    found: T = ctx.twins[one]
    return found


def away(ctx: Context) -> bool:
    """Return True if this state belongs to another event loop than the running one."""
    return ctx.place is not _get_running_loop() and ctx.place is not NOWHERE


def require_home(ctx: Context) -> None:
    """Refuse to use a hold, several holds or a delivery outside of its event loop."""
    if away(ctx):
        raise another_loop()


def _in_loop_of(ctx: Context, call: Callable[..., object], *args: Any) -> None:
    """Let the loop of this state call the function."""
    loop: Any = ctx.place
    call_in(loop, call, *args)


async def leave_held(ctx: Context, hold: Any, failure: BaseException | None) -> None:
    """End a ``with`` over a hold. In another loop than the hold's, the hold's loop releases it."""
    if not away(ctx):
        await hold._exit(failure)
        return
    _in_loop_of(ctx, hold._cut, hold._count)
    handed_over(hold, hold._what, failure)


async def leave_taken(ctx: Context, job: Any, failure: BaseException | None) -> None:
    """End a ``with`` over a delivery. In another loop than the delivery's, the delivery's loop
    settles it."""
    if not away(ctx):
        await job._leave(failure)
    elif job.lost is not None and failure is None:
        job.check()
    elif not job.settled:
        settle = job._ack_request() if failure is None else job._verdict_on(failure)
        _in_loop_of(ctx, job._hand_over, settle)


async def leave(one: Any, failure: BaseException | None, frame: FrameType) -> None:
    """End a ``with`` over a lock, possibly in another loop than that in which the ``with``
    began."""
    if not one._elsewhere(failure, frame):
        mine = here(one)
        await mine._door.leave(mine, failure, frame)


async def close_here(ctx: Context) -> None:
    """Close one client state, in its own loop."""
    try:
        await ctx.close()
    finally:
        ending, ctx.ending = ctx.ending, None
        if ending is not None:
            await ending.aclose()


def _begin(ctx: Context, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None] | None:
    """Arrange that the state of a client is closed when the loop closes its async generators.

    ``asyncio.run`` does that at its end.
    """
    if getattr(loop, "_asyncgens_shutdown_called", False):
        return None
    ending = _until_the_end(ref(ctx))
    with contextlib.suppress(StopIteration):
        anext(ending).__await__().send(None)  # runs it to its `yield`, without suspending
    return ending


async def _until_the_end(weak: ReferenceType[Context]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        ctx = weak()
        if ctx is not None and not ctx.closed:
            ctx.ending = None
            for _ in range(round(LEAVE_S / LEAVE_STEP_S)):
                if not ctx.keeper.pending():
                    break
                await sleep(LEAVE_STEP_S)  # another generator may be leaving its `with`
            await ctx.close()


#: Closes that are under way in other loops, each with the context that it closes.
Asked = dict[asyncio.Future[None], Context]


def _ask_to_close(
    contexts: dict[asyncio.AbstractEventLoop, Context],
) -> tuple[Asked, list[Context]]:
    """Begin to close the states in their own loops; also return the states of idle loops."""
    asked: Asked = {}
    idle = []
    for loop, ctx in contexts.items():
        work = close_here(ctx)
        try:
            if loop.is_running():
                done = asyncio.run_coroutine_threadsafe(work, loop)
                asked[asyncio.wrap_future(done)] = ctx
                continue
        except RuntimeError:  # the loop was closed in between
            pass
        work.close()
        idle.append(ctx)
    return asked, idle


async def _all_closed(asked: Asked, failures: list[BaseException]) -> None:
    """Wait for these closes, with a time limit. Slower closes continue."""
    if not asked:
        return
    await ended(asked, ELSEWHERE_S)
    late = {future for future in asked if not future.done()}
    done = asked.keys() - late
    failures += [one for future in done if (one := _failure(future)) is not None]
    for future in late:
        if not _stands(asked[future]):
            label, took = asked[future].store.label, ELSEWHERE_S
            log.warning("closing %s in another event loop takes more than %g s", label, took)


def _failure(future: asyncio.Future[None]) -> BaseException | None:
    """Return the error of a close. A cancellation in its own loop isn't reported elsewhere."""
    return None if future.cancelled() else future.exception()


def _stands(ctx: Context) -> bool:
    """True if the state isn't closed completely, and its loop no longer runs."""
    loop: Any = ctx.place
    return not ctx.ended and loop is not NOWHERE and not loop.is_running()


async def _gather(failures: list[BaseException], work: Awaitable[None]) -> None:
    """Await the work and keep its error, so that the remaining work is done first."""
    try:
        await work
    except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
        raise
    except BaseException as failure:
        failures.append(failure)


def _raise_first(failures: list[BaseException]) -> None:
    """Raise the first cancellation or Ctrl-C, else the first error; the other errors are its
    notes."""
    if failures:
        ends = [one for one in failures if not isinstance(one, Exception)]
        first = (ends or failures)[0]
        for other in failures:
            if other is not first:
                first.add_note(f"also, in another event loop: {type(other).__name__}: {other}")
        raise first


def _abandon(ctx: Context) -> list[Undo]:
    """Close the connections of a loop that no longer runs; return the undos that are left."""
    if ctx.ended:
        return []
    ctx.closing.stop()
    ctx.ended = True
    # A store in memory has nothing to close; a store of another package can lack the method.
    let_go: Any = getattr(getattr(ctx.store, "_port", None), "abandon", None)
    if let_go is not None:
        with contextlib.suppress(Exception):
            let_go()
    return list(ctx.closing.left)
